"""What a run starts, it ends: at its end, and where the start itself fails."""

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self


class Scoped(ABC):
    """Enters things into one scope at its start, which ends them in reverse order."""

    def __init__(self) -> None:
        self._scope = AsyncExitStack()

    @abstractmethod
    async def _start(self) -> None:
        """Enter them into ``_scope``."""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._scope.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._scope.aclose()
