"""HTTP between daemons about partitions, in memory: what `api` answers, over a lossy wire."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from broker_ctl import codec
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import BrokerCtlError, Fenced, HttpError
from broker_ctl.http_client import HttpClient, HttpReply

_INSTRUCTIONS: Final = "/control/v1/instructions"
_SHUTDOWN: Final = "/control/v1/controlled-shutdown"
_TIMEOUT_S: Final = 10.0
_OK: Final = 200
_CONFLICT: Final = 409
_LATER: Final = 503


class Daemon(Protocol):
    """The daemon that is called."""

    @property
    def dependencies(self) -> Dependencies | None:
        """None while it does not listen."""
        ...

    async def call(self, work: Any) -> Any:
        """Do something in its loop."""
        ...


class MemoryCalls(HttpClient):
    """`HttpClient` of one daemon; ``others`` are reached by ``host:port``.

    ``transit`` is awaited for each message to or from one of them.
    """

    def __init__(
        self, others: Mapping[str, Daemon], transit: Callable[[str], Awaitable[None]]
    ) -> None:
        super().__init__(timeout_s=_TIMEOUT_S, max_body_bytes=0)
        self._others = others
        self._transit = transit

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        allow_redirects: bool = False,  # noqa: ARG002
        sign: object = None,  # noqa: ARG002
        ssl: object = None,  # noqa: ARG002
    ) -> HttpReply:
        where = urlsplit(url)
        body = codec.decode_object(content) if content is not None else json
        try:
            async with asyncio.timeout(timeout_s or _TIMEOUT_S):
                await self._transit(where.netloc)
                other = self._others[where.netloc]
                if other.dependencies is None:
                    raise HttpError(f"{method} {url}: nobody listens")
                status, row = await other.call(_ANSWERS[where.path](other.dependencies, body))
                await self._transit(where.netloc)
        except TimeoutError:
            raise HttpError(f"{method} {url}: no answer in time") from None
        except BrokerCtlError as error:
            raise HttpError(f"{method} {url}: {error}") from error
        return HttpReply(status, {}, codec.encode(row))


Answer = tuple[int, dict[str, Any]]


async def _obey(dependencies: Dependencies, body: Mapping[str, Any]) -> Answer:
    assert dependencies.replicas is not None
    try:
        instruction = Instruction.parse(body)
        obeyed = await dependencies.replicas.handle(instruction)
    except Fenced as error:
        seen = dependencies.replicas.newest_controller_epoch
        return _CONFLICT, {"error": "Fenced", "reason": str(error), "controller_epoch": seen}
    except BrokerCtlError as error:
        return _LATER, {"error": type(error).__name__, "reason": str(error)}
    errors = [[*partition, reason] for partition, reason in obeyed.errors]
    differing = {"differing": obeyed.differing} if instruction.spans else {}
    return _OK, {"broker_epoch": obeyed.broker_epoch, "errors": errors, **differing}


async def _shut_down(dependencies: Dependencies, body: Mapping[str, Any]) -> Answer:
    admin = None if dependencies.partitions is None else dependencies.partitions.admin()
    if admin is None:
        return _LATER, {}
    broker, epoch, is_forced = (body[key] for key in ("broker", "broker_epoch", "force"))
    try:
        return _OK, dict(await admin.shut_down(broker, epoch, is_forced=is_forced))
    except Fenced as error:
        return _CONFLICT, {"reason": str(error)}
    except BrokerCtlError as error:
        return _LATER, {"reason": str(error)}


_ANSWERS: Final[Mapping[str, Callable[[Dependencies, Mapping[str, Any]], Awaitable[Answer]]]] = {
    _INSTRUCTIONS: _obey,
    _SHUTDOWN: _shut_down,
}
