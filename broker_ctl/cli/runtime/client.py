"""HTTP client of a daemon: follows redirects; errors say what to do."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from ssl import SSLContext, SSLError
from types import TracebackType
from typing import Any, Final, NoReturn, Self
from urllib.parse import quote, urlencode, urljoin, urlsplit

import click

from broker_ctl.cli.runtime.secret_files import crosses_in_the_clear, refusal
from broker_ctl.core.model.broker import AllowedHosts, WebAddress
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply

# As many as Pulsar's clients follow (maxLookupRedirects).
MAX_REDIRECTS: Final = 20
# Daemons end a read after 30 s. A move takes as long as the source needs to close its topics.
_READ_TIMEOUT_S: Final = 40.0
_ACT_TIMEOUT_S: Final = 120.0
_READS: Final = frozenset({"GET", "HEAD"})
# A longer wait is reported on stderr.
_PATIENCE_S: Final = 5.0
_MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
_FORBIDDEN: Final = 403
_ADVICE: Final = {
    401: "the daemon requires a token: use --token-file",
    _FORBIDDEN: "the role needs the right: see superUserRoles, operatorRoles, viewerRoles",
    503: "retry in a few seconds",
}


@dataclass(frozen=True, slots=True)
class TlsTrust:
    """Where the token goes besides the host of ``--url``.

    Attributes:
        hosts: of ``--trusted-hosts``.
        authority: whether ``--tls-ca`` is given, which an https target has to prove itself by.
        allows_cleartext: whether it may cross a network unencrypted.
    """

    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    authority: bool = False
    allows_cleartext: bool = False

    def allows(self, target: WebAddress) -> bool:
        """Whether a redirect to this address may be followed with the token."""
        return (self.authority and target.scheme == "https") or self.hosts.allows(target.host)


_NO_TRUST: Final = TlsTrust()


class DaemonClient:
    """The API of one daemon, and of the brokers to which it redirects.

    A daemon takes the targets of redirects from ZooKeeper, so the token goes to trusted hosts only.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        tls: SSLContext | None = None,
        timeout_s: float | None = None,
        trust: TlsTrust = _NO_TRUST,
    ) -> None:
        self._url = url.rstrip("/")
        self._has_token = token is not None
        self._trust = trust
        self._timeout_s = timeout_s
        self._http = HttpClient(
            token=token, timeout_s=_ACT_TIMEOUT_S, max_body_bytes=_MAX_REPLY_BYTES, ssl=tls
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
        """The JSON body of a GET request."""
        return (await self.request("GET", path, query)).json()

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        hops: list[str] | None = None,
    ) -> HttpReply:
        """A successful reply; the targets of redirects are appended to ``hops``.

        Raises:
            HttpError: the daemon cannot be reached, or refused; the message says what to do.
        """
        url = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        for _ in range(MAX_REDIRECTS + 1):
            if self._has_token:
                self._require_privacy(url, f"{method} {path}")
            reply = await self._send(method, url, json)
            if reply.status != 307:
                return _explain_missing_fields(
                    _check_status(method, path, reply), f"{method} {path}", url
                )
            location = _location(url, reply)
            if self._has_token:
                self._require_trust(url, location, f"{method} {path}")
            url = location
            if hops is not None:
                hops.append(url)
        raise HttpError(f"redirected more than {MAX_REDIRECTS} times; retry [{method} {path}]")

    def _require_privacy(self, url: str, request: str) -> None:
        """Refuse to send the token over a network unencrypted.

        Raises:
            HttpError: says what to do; nothing was sent.
        """
        if crosses_in_the_clear(url) and not self._trust.allows_cleartext:
            raise HttpError(f"{refusal(url)} [{request}]")

    def _require_trust(self, url: str, location: str, request: str) -> None:
        """Refuse a redirect whose target must not get the token.

        Raises:
            HttpError: names the target, who sent the request there, and what to do.
        """
        target = _address(location)
        own = urlsplit(self._url).hostname or ""
        if target is not None and (
            AllowedHosts.parse((own,)).allows(target.host) or self._trust.allows(target)
        ):
            return
        host = repr(location) if target is None else target.host
        raise HttpError(
            f"the daemon at {urlsplit(url).netloc} redirects to {host}, a host that is not trusted "
            "with the token: nothing was sent there. If it is a broker of this cluster, name it in "
            f"--trusted-hosts (or BROKER_CTL_TRUSTED_HOSTS), or use https and --tls-ca [{request}]"
        )

    async def _send(self, method: str, url: str, json: Any) -> HttpReply:
        limit_s = self._timeout_s or (_READ_TIMEOUT_S if method in _READS else _ACT_TIMEOUT_S)
        waiting = f"waiting for {urlsplit(url).netloc}, for {limit_s:g} s at most (--timeout)"
        notice = asyncio.get_running_loop().call_later(
            _PATIENCE_S, partial(click.echo, waiting, err=True)
        )
        try:
            return await self._http.request(method, url, json=json, timeout_s=limit_s)
        except HttpError as error:
            if url.startswith(self._url):
                advice = _connection_advice(error.__cause__)
                reason = f"no answer from the daemon at {self._url}: {advice} ({error})"
                raise HttpError(reason) from error
            raise HttpError(f"redirected to a broker that does not answer ({error})") from error
        finally:
            notice.cancel()


def _connection_advice(cause: BaseException | None) -> str:
    if not isinstance(cause, SSLError):
        return "check that it is running; --url or BROKER_CTL_URL selects the daemon"
    if "WRONG_VERSION_NUMBER" in str(cause):
        return "it does not speak TLS at this port: use http://, or its webServicePortTls"
    return "--tls-ca sets the trusted authorities, --tls-cert the client certificate"


def _location(url: str, reply: HttpReply) -> str:
    """The target of a redirect; a redirect from https to http is an error."""
    location = urljoin(url, reply.headers.get("Location", ""))
    if url.startswith("https:") and not location.startswith("https:"):
        raise HttpError(f"redirect from https to {location} not followed")
    return location


def _address(location: str) -> WebAddress | None:
    """Scheme and host of a URL; None if parsers could read another host out of it."""
    try:
        parts = urlsplit(location)
        return WebAddress.parse(f"{parts.scheme}://{parts.netloc}")
    except ValueError:
        return None


def _check_status(method: str, path: str, reply: HttpReply) -> HttpReply:
    if reply.status < 400:
        return reply
    reason = _reason(reply)
    advice = _advice(reply)
    raise HttpError(f"{reason}" + (f"; {advice}" if advice else "") + f" [{method} {path}]")


def _reason(reply: HttpReply) -> str:
    try:
        body = reply.json()
    except HttpError:
        return f"status {reply.status}; the server is not a broker-ctl daemon"
    reason = body.get("reason") if isinstance(body, dict) else None
    return f"{reason} ({reply.status})" if reason else f"status {reply.status}"


def _advice(reply: HttpReply) -> str | None:
    """What to do. A 403 calls for another role only if the body says Forbidden."""
    if reply.status == _FORBIDDEN:
        try:
            body = reply.json()
        except HttpError:
            return None
        if not (isinstance(body, dict) and body.get("error") == "Forbidden"):
            return None
    return _ADVICE.get(reply.status)


def _explain_missing_fields(reply: HttpReply, request: str, url: str) -> HttpReply:
    """A reply whose missing fields raise an error that names the daemon's version as the cause."""
    return _DaemonReply(reply.status, reply.headers, reply.body, request, urlsplit(url).netloc)


@dataclass(frozen=True, slots=True)
class _DaemonReply(HttpReply):
    request: str
    daemon: str

    def json(self) -> Any:
        """See `HttpReply.json`; a missing field raises `HttpError` instead of `KeyError`."""
        # Not super(): dataclass(slots=True) replaces the class by a new one.
        return self._with_fields(HttpReply.json(self))

    def _with_fields(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._with_fields(one) for one in value]
        if isinstance(value, dict):
            fields = {name: self._with_fields(one) for name, one in value.items()}
            return _Fields(fields, self)
        return value

    def missing_field(self, name: str) -> HttpError:
        """The error for a field that the reply lacks."""
        return HttpError(
            f"the daemon at {self.daemon} has another version than this broker-ctl: its response "
            f"has no {name}; use the broker-ctl installed with the daemon [{self.request}]"
        )


class _Fields(dict[str, Any]):
    """One JSON object of a reply."""

    def __init__(self, fields: dict[str, Any], reply: _DaemonReply) -> None:
        super().__init__(fields)
        self._reply = reply

    def __missing__(self, name: str) -> NoReturn:
        raise self._reply.missing_field(name)


def namespace_path(namespace: Namespace) -> str:
    """The path of a namespace in the API."""
    return f"/admin/v2/namespaces/{quote(namespace.tenant)}/{quote(namespace.name)}"


def bundle_path(bundle: Bundle, verb: str) -> str:
    """The path of an action on a bundle in the API."""
    return f"{namespace_path(bundle.namespace)}/{bundle.range}/{verb}"
