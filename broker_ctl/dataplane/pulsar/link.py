"""Sends admin requests to a Pulsar cluster, over any of its brokers.

Any broker accepts any request, and redirects the caller to the broker that must carry it out: an
unload with a destination to the leader, which redirects to the owner; a split to the owner (docs:
pulsar-admin-api). Since the token is sent along, only redirects to brokers of the cluster are
followed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from broker_ctl.codec import decode
from broker_ctl.errors import CorruptRecord, HttpError, PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient, HttpReply

_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_AT_ROOT: Final = ("lookup/", "metrics/")
_MAX_REDIRECTS: Final = 8
_PORTS: Final = {"http": 80, "https": 443}
_MAX_REASON: Final = 300
# Lines of a Java stack trace.
_MESSAGE: Final = "Message: "
_NO_MESSAGE: Final = "Message: null"
_TRACE: Final = "Stacktrace:"


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the admin API.

    Attributes:
        path: below ``/admin/v2/``, or one that begins with ``lookup/`` or ``metrics/``.
        body: a JSON value; None: empty.
        timeout_s: None: the deadline of ``http``.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: Any = None
    timeout_s: float | None = None

    def url(self, base: str) -> str:
        """The URL of the first attempt."""
        root = base if self.path.startswith(_AT_ROOT) else f"{base}/admin/v2"
        return f"{root}/{self.path}" + (f"?{urlencode(self.query)}" if self.query else "")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class AdminLink:
    """Requests to one cluster.

    Args:
        urls: web addresses of the admin API, ``http://host:port``; tried in turn.
        http: carries the token, the deadline of a question, and TLS; closed by its owner.
        brokers: web addresses of the live brokers, to which redirects are followed too.
    """

    def __init__(
        self, urls: Iterable[str], http: HttpClient, brokers: Callable[[], Iterable[str]]
    ) -> None:
        self._urls = deque(url.rstrip("/") for url in urls)
        self._http = http
        self._brokers = brokers

    async def ask(
        self, path: str, query: Mapping[str, str] | None = None, at: str | None = None
    ) -> HttpReply:
        """A read, at any address that answers, or at the broker with the address ``at``.

        Raises:
            PeerRefused: the cluster refused. PeerUnreachable: no broker answers.
        """
        question = Request("GET", path, query or {})
        if at is not None:
            return await self._send(question, at)
        _, reply = await self._ask_any_url(question)
        return reply

    async def order(self, request: Request) -> None:
        """A write, sent once: it is never repeated at another address.

        Raises:
            PeerRefused: the cluster refused; nothing was done.
            PeerUnreachable: no answer, or one that does not say whether the write was carried out.
        """
        # A read first finds an address that answers, so that the write is not sent to one that is
        # down. The write goes to that address: concurrent callers may have rotated the list
        # meanwhile.
        url, _ = await self._ask_any_url(Request("GET", "clusters"))
        await self._send(request, url)

    async def _ask_any_url(self, question: Request) -> tuple[str, HttpReply]:
        """The reply of the first address that answers."""
        failures: list[str] = []
        for _ in range(len(self._urls)):
            url = self._urls[0]
            try:
                return url, await self._send(question, url)
            except PeerUnreachable as error:
                failures.append(str(error))
                # A concurrent caller may have rotated the list already.
                if self._urls[0] == url:
                    self._urls.rotate(-1)
        raise PeerUnreachable("; ".join(failures))

    async def _send(self, request: Request, base: str) -> HttpReply:
        url = request.url(base)
        for _ in range(_MAX_REDIRECTS):
            try:
                reply = await self._http.request(
                    request.method,
                    url,
                    json=request.body,
                    # An empty body is sent as JSON, too: Pulsar refuses any other type (415).
                    content=None if request.method == "GET" else b"",
                    timeout_s=request.timeout_s,
                )
            except HttpError as error:
                raise PeerUnreachable(str(error)) from error
            if reply.status not in _REDIRECTS:
                return _check_reply(request, url, reply)
            url = self._next(url, reply)
        raise PeerRefused("TooManyRedirects", f"{request}: sent on {_MAX_REDIRECTS} times")

    def _next(self, url: str, reply: HttpReply) -> str:
        target = _join_url(url, reply.headers.get("Location", ""))
        origin = _origin(target)
        if origin is None or origin not in map(_origin, (*self._urls, *self._brokers())):
            raise PeerRefused(
                "ForeignRedirect",
                f"{url} sends on to {target}, which is not a broker of the cluster",
            )
        if url.startswith("https:") and not target.startswith("https:"):
            raise PeerRefused("ForeignRedirect", f"{url} sends on to {target}, without TLS")
        return target


def _join_url(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location  # not a URL: belongs to no broker


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it is not a URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None


def _check_reply(request: Request, url: str, reply: HttpReply) -> HttpReply:
    """The reply, if it is a success."""
    if 200 <= reply.status < 300:
        return reply
    reason = f"{request} at {urlsplit(url).netloc}: {_reason(reply) or reply.status}"
    if reply.status >= 500:
        # An unload that failed in transit may still have closed the bundle.
        raise PeerUnreachable(reason)
    raise PeerRefused(_status_phrase(reply.status), reason)


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return str(status)


def _reason(reply: HttpReply) -> str:
    """Pulsar's reason for a failure, in one line."""
    try:
        payload = decode(reply.body)
    except CorruptRecord:
        return ""
    text = payload.get("reason") if isinstance(payload, dict) else None
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    return _error_line(lines)[:_MAX_REASON]


def _error_line(lines: list[str]) -> str:
    """The informative line of a stack trace: its message, else the exception."""
    message = next((line for line in lines if line.startswith(_MESSAGE)), "")
    if message and message != _NO_MESSAGE:
        return message.removeprefix(_MESSAGE)
    thrown = lines[lines.index(_TRACE) + 1 :] if _TRACE in lines else lines
    return thrown[0] if thrown else ""
