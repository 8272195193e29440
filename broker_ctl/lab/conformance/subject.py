"""The broker process under test, and the daemon that it asks for its authority."""

import asyncio
import hmac
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlencode

from broker_ctl import codec
from broker_ctl.clock import Clock
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, BundleRange, Namespace
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.stream_listener import StreamListener

# Stub of the daemon, from which the broker process under test pulls its authority.


SESSION_EPOCH: Final = 7
_REQUEST_TIMEOUT_S: Final = 2.0
_MAX_HEAD_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class Pull:
    """One answered request for authority, on the clock of the stub."""

    asked_s: float
    answered_s: float
    remaining_ms: int


class AuthorityStub:
    """Serves one path over plain asyncio streams; an HTTP server library belongs to another layer.

    Attributes:
        remaining_ms: answer to the next request; None: close the connection instead.
        delay_s: delay of each answer, which exposes a deadline that is counted from its arrival.
        strangers: number of requests without the secret.
        pulls: the latest answered requests.
    """

    def __init__(self, host: str, port: int, secret: str, clock: Clock) -> None:
        self._host = host
        self._port = port
        self._expected = f"Bearer {secret}".encode()
        self._clock = clock
        self._listener = StreamListener(self._serve, "authority stand-in", _MAX_HEAD_BYTES)
        self.remaining_ms: int | None = None
        self.delay_s = 0.0
        self.strangers = 0
        self.pulls: deque[Pull] = deque(maxlen=64)

    @property
    def url(self) -> str:
        """The URL that the broker process must be configured with."""
        return f"http://{self._host}:{self._port}{wire.AUTHORITY}"

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not ours.
        """
        await self._listener.open(self._host, self._port)

    async def close(self) -> None:
        """Close all connections."""
        await self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close; a malformed or slow request is closed without an answer."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S + self.delay_s):
                head = await reader.readuntil(b"\r\n\r\n")
                asked_s = self._clock.now_s()
                await asyncio.sleep(self.delay_s)
                await self._answer(head, asked_s, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass

    async def _answer(self, head: bytes, asked_s: float, writer: asyncio.StreamWriter) -> None:
        # Read after the delay: the check may have changed it meanwhile.
        remaining_ms = self.remaining_ms
        status, body = b"200 OK", b"{}"
        if not _is_authority_request(head):
            status = b"404 Not Found"
        elif not hmac.compare_digest(_authorization(head), self._expected):
            self.strangers += 1
            status = b"401 Unauthorized"
        elif remaining_ms is None:
            return
        else:
            body = codec.encode(wire.authority_json(SESSION_EPOCH, remaining_ms))
            self.pulls.append(Pull(asked_s, self._clock.now_s(), remaining_ms))
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%s" % (status, len(body), body)
        )
        await writer.drain()


def _is_authority_request(head: bytes) -> bool:
    return head.startswith(b"GET %s HTTP/1." % wire.AUTHORITY.encode())


def _authorization(head: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip()
    return b""


# Client of the broker process under test: raw statuses and fields, without the adapter.


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
