"""Talking to a daemon: redirects are followed, and a refusal says what to do."""

from collections.abc import Mapping
from ssl import SSLContext, SSLError
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urljoin

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.names import Namespace
from broker_ctl.errors import HttpError
from broker_ctl.http import HttpClient, HttpReply

# As many as Pulsar's clients follow (maxLookupRedirects).
MAX_REDIRECTS: Final = 20
# A move takes as long as the source needs to close its topics.
_TIMEOUT_S: Final = 120.0
_MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
_FORBIDDEN: Final = 403
_ADVICE: Final = {
    401: "the daemon wants a token: use --token-file",
    _FORBIDDEN: "the token's role must be in superUserRoles",
    503: "ask again in a moment",
}


class Client:
    """One daemon's surface. The token also goes where the daemon sends a request on to."""

    def __init__(self, url: str, token: str | None, tls: SSLContext | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = HttpClient(
            token=token, timeout_s=_TIMEOUT_S, max_body_bytes=_MAX_REPLY_BYTES, ssl=tls
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON that is served there."""
        return (await self.request("GET", path, query)).json()

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        hops: list[str] | None = None,
    ) -> HttpReply:
        """A reply that is no refusal; ``hops`` gets the addresses that it was sent on to.

        Raises:
            HttpError: not reached, or refused: what happened, and what to do.
        """
        url = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send(method, url, json)
            if reply.status != 307:
                return _accepted(method, path, reply)
            url = _location(url, reply)
            if hops is not None:
                hops.append(url)
        raise HttpError(f"{method} {path}: sent on more than {MAX_REDIRECTS} times; ask again")

    async def _send(self, method: str, url: str, json: Any) -> HttpReply:
        try:
            return await self._http.request(method, url, json=json)
        except HttpError as error:
            if url.startswith(self._url):
                advice = "is it running? --url or BROKER_CTL_URL says which to ask"
                if isinstance(error.__cause__, SSLError):
                    advice = "--tls-ca says whom to trust, --tls-cert what to show"
                reason = f"no answer from the daemon at {self._url}: {advice} ({error})"
                raise HttpError(reason) from error
            raise HttpError(f"sent on to a broker that does not answer ({error})") from error


def _location(url: str, reply: HttpReply) -> str:
    """Where a request was sent on to; never from a protected connection to an open one."""
    location = urljoin(url, reply.headers.get("Location", ""))
    if url.startswith("https:") and not location.startswith("https:"):
        raise HttpError(f"sent on from https to {location}: not followed")
    return location


def _accepted(method: str, path: str, reply: HttpReply) -> HttpReply:
    if reply.status < 400:
        return reply
    reason = _reason(reply)
    advice = _advice(reply)
    raise HttpError(f"{method} {path}: {reason}" + (f"; {advice}" if advice else ""))


def _reason(reply: HttpReply) -> str:
    try:
        body = reply.json()
    except HttpError:
        return f"status {reply.status}; is this a broker-ctl daemon?"
    reason = body.get("reason") if isinstance(body, dict) else None
    return f"{reason} ({reply.status})" if reason else f"status {reply.status}"


def _advice(reply: HttpReply) -> str | None:
    """What to do; another role does not help where a write is refused for another reason."""
    if reply.status == _FORBIDDEN:
        try:
            body = reply.json()
        except HttpError:
            return None
        if not (isinstance(body, dict) and body.get("error") == "Forbidden"):
            return None
    return _ADVICE.get(reply.status)


def namespace_path(namespace: Namespace) -> str:
    """Where a namespace is served."""
    return f"/admin/v2/namespaces/{quote(namespace.tenant)}/{quote(namespace.name)}"


def bundle_path(bundle: Bundle, verb: str) -> str:
    """Where a verb for a bundle is served."""
    return f"{namespace_path(bundle.namespace)}/{bundle.range}/{verb}"
