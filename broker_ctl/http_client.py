"""The HTTP client for all requests: deadline, size limit, authentication and TLS."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp.abc import ResolveResult
from yarl import URL

from broker_ctl import codec
from broker_ctl.addresses import reached_at
from broker_ctl.errors import CertificateRefused, CorruptRecord, HttpError
from broker_ctl.tracing.spans import TRACEPARENT, current_traceparent

# Headers that prove a request, from its method, its path and query as they are sent, and its body.
Sign = Callable[[str, str, bytes], Mapping[str, str]]
# The newest bearer secret.
Token = Callable[[], str | bytes]


_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply, whatever its status (also 500). Header names ignore case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            HttpError: the body is not JSON.
        """
        try:
            return codec.decode(self.body)
        except CorruptRecord as error:
            raise HttpError(f"the reply with status {self.status} is {error}") from error


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Of one pool of connections: a read that was cut off is sent again, a write is not."""

    reads: aiohttp.ClientSession
    writes: aiohttp.ClientSession


class _Resolver(aiohttp.ThreadedResolver):
    """Looks up the hosts of URLs; see `reached_at`."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See `aiohttp.abc.AbstractResolver.resolve`."""
        return await super().resolve(reached_at(host), port, family)


class HttpClient:
    """A pool of connections with one secret.

    Args:
        token: bearer secret, sent with each request and never logged, or what returns the newest
            one; None: no authentication.
        timeout_s: deadline of a whole exchange in seconds, from first byte sent to last received.
        max_body_bytes: a longer reply is an error.
        ssl: for verification and client certificates; None: the system's certificates.

    Proxies of the environment are ignored: peers and broker processes are reached directly.
    """

    def __init__(
        self,
        *,
        token: str | bytes | Token | None = None,
        timeout_s: float,
        max_body_bytes: int,
        ssl: SSLContext | None = None,
    ) -> None:
        self._token = token
        self._timeout_s = timeout_s
        self._max_body_bytes = max_body_bytes
        self._ssl = ssl
        self._sessions: _Sessions | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        allow_redirects: bool = False,
        sign: Sign | None = None,
        ssl: SSLContext | None = None,
    ) -> HttpReply:
        """Send one request; the body is ``json``, or ``content`` unchanged, or empty.

        ``sign`` is for one request: a redirect must not be followed with it. ``ssl`` replaces the
        context of the client. A failed request may have been executed: only the caller knows
        whether it may be retried. A redirect to another origin does not carry the secret.

        Raises:
            CertificateRefused: the server has not proven who it is; nothing was sent.
            HttpError: unreachable, not answered in time, or too large; names request and reason.
        """
        data = codec.encode(json) if json is not None else content
        headers = self._headers(has_body=data is not None)
        if sign is not None:
            headers |= sign(method, URL(url).raw_path_qs, data or b"")
        deadline_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with (
                asyncio.timeout(deadline_s),
                self._open_session(method).request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=allow_redirects,
                    ssl=ssl or True,
                ) as reply,
            ):
                return HttpReply(reply.status, reply.headers, await self._bounded_body(reply))
        except HttpError as error:
            raise HttpError(f"{method} {url}: {error}") from error
        except TimeoutError as error:
            raise HttpError(f"{method} {url}: no answer within {deadline_s:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise CertificateRefused(f"{method} {url}: {error.certificate_error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise HttpError(f"{method} {url}: {reason}") from error

    async def close(self) -> None:
        """Close all connections; a closed client rejects further requests."""
        self._is_closed = True
        if self._sessions is not None:
            # The connections, which they share, are closed with the first.
            await self._sessions.reads.close()
            await self._sessions.writes.close()

    def _open_session(self, method: str) -> aiohttp.ClientSession:
        if self._is_closed:
            raise HttpError("the client is closed")
        # A session belongs to the loop that creates it, so the first request creates it.
        if self._sessions is None:
            connector = aiohttp.TCPConnector(ssl=self._ssl or True, resolver=_Resolver())
            self._sessions = _Sessions(_session(connector), _session(connector))
            # aiohttp sends PUT and DELETE a second time where the connection is cut before the
            # answer, although the first may have been executed. It has no option for that.
            self._sessions.writes._retry_connection = False  # noqa: SLF001
        return self._sessions.reads if method in _READS else self._sessions.writes

    def _headers(self, *, has_body: bool) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if has_body else {}
        if traceparent := current_traceparent():
            headers[TRACEPARENT] = traceparent
        return headers | self._authentication()

    def _authentication(self) -> dict[str, str]:
        token = self._token() if callable(self._token) else self._token
        text = token.decode() if isinstance(token, bytes) else token
        return {"Authorization": f"Bearer {text}"} if text else {}

    async def _bounded_body(self, reply: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in reply.content.iter_any():
            body += chunk
            if len(body) > self._max_body_bytes:
                # Leaving the block with unread data closes the connection.
                raise HttpError(f"the reply is longer than {self._max_body_bytes} bytes")
        return bytes(body)


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # The deadline around the whole exchange replaces aiohttp's own five minutes.
        timeout=aiohttp.ClientTimeout(),
    )
