"""Client of the broker process under test: raw statuses and fields, without the adapter."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlencode

from broker_ctl.clock import Clock
from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Namespace
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply

TENANT: Final = "broker-ctl-check"
WHOLE: Final = Bundle(Namespace(TENANT, "ring"), BundleRange(RING_LOW, RING_HIGH))
LEFT, RIGHT = WHOLE.cut((0x80000000,))
ELSEWHERE: Final = Bundle(Namespace(TENANT, "other"), WHOLE.range)

_POLL_S: Final = 0.02
_UNLOAD_MS: Final = 5_000

_T = TypeVar("_T")


class Unmet(Exception):
    """A promise is broken. Ends one check; never leaves the conformance test."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}; seen {seen}")
        self.expected = expected
        self.seen = seen


def unmet(expected: str, seen: object) -> NoReturn:
    """End the check."""
    raise Unmet(expected, str(seen))


class BrokerClient:
    """One broker process; counts tokens upwards from ``first_token``.

    Every reply is checked for ``instance_id``: it must be present and must not change.
    """

    def __init__(self, url: str, http: HttpClient, clock: Clock, first_token: int) -> None:
        self._url = url.rstrip("/")
        self._http = http
        self._clock = clock
        self._token = first_token
        self._instance_id = ""

    @property
    def instance_id(self) -> str:
        """As of its first reply."""
        return self._instance_id

    def now_s(self) -> float:
        """The clock that deadlines are judged on."""
        return self._clock.now_s()

    def next_token(self) -> int:
        """A token higher than all before."""
        self._token += 1
        return self._token

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        stranger: HttpClient | None = None,
    ) -> HttpReply:
        """One call, whatever its status; ``stranger`` is a client with another secret."""
        http = stranger or self._http
        reply = await http.request(method, self._url + path, json=json, content=content)
        if reply.status != 401:
            self._check_instance(method, path, reply)
        return reply

    async def expect(self, status: int, method: str, path: str, **how: Any) -> Any:
        """One call that must be answered with ``status``; returns the reply's JSON object."""
        reply = await self.call(method, path, **how)
        if reply.status != status:
            body = reply.body[:200].decode(errors="replace")
            unmet(f"{status} to {method} {path}", f"{reply.status} {body!r}")
        return {} if status == 401 else reply.json()

    async def load(self, bundle: Bundle, token: int, status: int = 200) -> None:
        """Load a bundle, or see it refused."""
        await self.expect(status, "POST", wire.LOAD, json={"bundle": str(bundle), "token": token})

    async def renew(self, bundle: Bundle, token: int, status: int = 200) -> None:
        """Renew a bundle, or see it refused."""
        await self.expect(status, "POST", wire.RENEW, json={"bundle": str(bundle), "token": token})

    async def split(self, parent: Bundle, tokens: dict[Bundle, int], status: int = 200) -> None:
        """Split a bundle, or see it refused."""
        body = {"parent": str(parent), "children": wire.tokens_json(tokens)}
        await self.expect(status, "POST", wire.SPLIT, json=body)

    async def merge(self, token: int, status: int = 200) -> None:
        """Merge `LEFT` and `RIGHT` into `WHOLE`, or see it refused."""
        body = {"children": [str(LEFT), str(RIGHT)], "parent": str(WHOLE), "token": token}
        await self.expect(status, "POST", wire.MERGE, json=body)

    async def unload(self, bundle: Bundle) -> int:
        """Unload a bundle, which must be confirmed; returns the number of topics closed."""
        body = {"bundle": str(bundle), "deadline_ms": _UNLOAD_MS}
        reply = await self.expect(200, "POST", wire.UNLOAD, json=body)
        if wire.field(reply, "is_confirmed", bool) is not True:
            unmet(f"{bundle} is unloaded within {_UNLOAD_MS} ms", reply)
        return wire.count(reply, "topics_closed")

    async def fence(self, bundle: Bundle) -> None:
        """Fence a bundle."""
        await self.expect(200, "POST", wire.FENCE, json={"bundle": str(bundle)})

    async def topics(self, bundle: Bundle, status: int = 200) -> tuple[str, ...]:
        """The open topics of a bundle."""
        path = f"{wire.TOPICS}?{urlencode({'bundle': str(bundle)})}"
        reply = await self.expect(status, "GET", path)
        return tuple(wire.field(reply, "topics", list)) if status == 200 else ()

    async def topic_statistics(self, bundle: Bundle, status: int = 200) -> dict[str, BundleStats]:
        """The traffic of each open topic of a bundle."""
        path = f"{wire.TOPIC_STATISTICS}?{urlencode({'bundle': str(bundle)})}"
        reply = await self.expect(status, "GET", path)
        return wire.topic_statistics(reply) if status == 200 else {}

    async def loaded(self) -> dict[Bundle, int]:
        """The loaded bundles of the checks, with their tokens."""
        held = wire.tokens(await self.expect(200, "GET", wire.STATE), "bundles")
        return {key: token for key, token in held.items() if key.namespace.tenant == TENANT}

    async def expect_loaded(self, expected: dict[Bundle, int]) -> None:
        """Check that exactly these of the checks' bundles are loaded."""
        held = await self.loaded()
        if held != expected:
            unmet(f"state shows {wire.tokens_json(expected)}", wire.tokens_json(held))

    async def authority(self) -> tuple[int, int]:
        """Session epoch and remaining milliseconds, as the broker process reports them."""
        state = await self.expect(200, "GET", wire.STATE)
        return wire.authority(wire.field(state, "authority", dict))

    async def eventually(
        self, expected: str, within_s: float, ask: Callable[[], Awaitable[_T]]
    ) -> _T:
        """The first truthy answer; fails the check if there is none within ``within_s`` seconds."""
        end_s = self._clock.now_s() + within_s
        while not (answer := await ask()):
            if self._clock.now_s() > end_s:
                unmet(f"{expected} within {within_s:g} s", answer)
            await asyncio.sleep(_POLL_S)
        return answer

    async def clean_up(self) -> None:
        """Unload the bundles of the checks."""
        for bundle in await self.loaded():
            await self.unload(bundle)

    def _check_instance(self, method: str, path: str, reply: HttpReply) -> None:
        try:
            payload = reply.json()
        except HttpError as error:
            unmet(f"a JSON object in answer to {method} {path}", error)
        instance_id = wire.field(payload, "instance_id", str)
        self._instance_id = self._instance_id or instance_id
        if not instance_id or instance_id != self._instance_id:
            unmet(f"instance_id {self._instance_id!r} in every reply", repr(instance_id))
