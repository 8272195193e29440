"""Nothing that a run has started is left behind, also where its start fails half way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.cluster.scoped import Scoped


class Run(Scoped):
    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self._fails = fails
        self.running: list[int] = []
        self.ended: list[int] = []

    async def _start(self) -> None:
        for number in range(2):
            await self._scope.enter_async_context(self._process(number))
        if self._fails:
            raise OSError("the third does not start")

    @asynccontextmanager
    async def _process(self, number: int) -> AsyncIterator[None]:
        self.running.append(number)
        yield
        self.running.remove(number)
        self.ended.append(number)


async def test_started_parts_run_until_the_scope_is_left() -> None:
    run = Run(fails=False)
    async with run:
        assert run.running == [0, 1]
    assert (run.running, run.ended) == ([], [1, 0])


async def test_a_start_that_fails_ends_what_it_had_started() -> None:
    run = Run(fails=True)
    with pytest.raises(OSError, match="the third does not start"):
        async with run:
            pytest.fail("it has not started")
    assert (run.running, run.ended) == ([], [1, 0])
