"""Requests to other brokers, signed with the key of the cluster.

A signature is made for one request to one broker: who receives it can do nothing else with it.
Addresses of brokers come from ZooKeeper, where an attacker may have written them. An address is
used only if it is at the host of its broker id, or at a host that the operator has listed (docs:
threat-peers).
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from enum import StrEnum
from http import HTTPStatus
from ssl import SSLContext
from typing import Any, Final

from broker_ctl.core.model.broker import AllowedHosts, BrokerUrls, WebAddress, web_address_host_of
from broker_ctl.errors import CertificateRefused, HttpError
from broker_ctl.http_client import HttpClient, HttpReply, Sign
from broker_ctl.security.signed_requests import START_HEADER

log = logging.getLogger(__name__)

# What the audit logs of several brokers have in common: the id of the operator's request that is
# the cause. Not signed: it gives no right, and who receives it checks its form.
REQUEST_ID: Final = "X-Request-Id"
caused_by: Final = ContextVar("caused_by", default="")

_NO_HOSTS: Final = AllowedHosts()
_MAX_REMEMBERED: Final = 10_000
_MAX_SHOWN: Final = 200
_USER = re.compile(r"//.*@", re.DOTALL)
_START = re.compile("[0-9a-f]{32}")
# How a request to a broker is signed, for a start that the broker has named; empty: it has not.
SignFor = Callable[[str, str], Sign]


class AddressSource(StrEnum):
    """Kinds of records that name a web address of a broker."""

    REGISTRATION = "registration"
    ELECTION = "election"
    OWNER = "owner"
    REPLICA_BROKER = "replica-broker"
    PULSAR = "pulsar-registry"


class PeerAddresses:
    """Decides at which web addresses a broker may be called; counts and logs the others.

    Args:
        allowed: the only hosts at which brokers are called; empty: the host of each broker's id.
        setting: key of ``allowed``, for errors.
        refused: counts by source, where several objects share them.
    """

    def __init__(
        self,
        allowed: AllowedHosts = _NO_HOSTS,
        *,
        setting: str = "peerAllowedHosts",
        refused: Counter[str] | None = None,
    ) -> None:
        self._allowed = allowed
        self._setting = setting
        counts: Counter[str] = Counter(dict.fromkeys(AddressSource, 0))
        self.refused = counts if refused is None else refused
        self._bound: dict[tuple[AddressSource, str], tuple[BrokerUrls, BrokerUrls]] = {}
        self._logged: set[tuple[AddressSource, str]] = set()

    def limited_to(self, allowed: AllowedHosts, setting: str) -> "PeerAddresses":
        """The same counts for other hosts."""
        return PeerAddresses(allowed, setting=setting, refused=self.refused)

    def bind(self, broker_id: str, urls: BrokerUrls, source: AddressSource) -> BrokerUrls:
        """The addresses of a broker without those at which it must not be called.

        ``broker_id`` is the name under which the broker was found: a payload may have another.
        """
        known = self._bound.get((source, broker_id))
        if known is not None and (known[0] is urls or known[0] == urls):
            return known[1]
        bound = replace(
            urls,
            broker_id=broker_id,
            web_url=self._keep(broker_id, urls.web_url, source, is_tls=False),
            web_url_tls=self._keep(broker_id, urls.web_url_tls, source, is_tls=True),
            admin_url=self._keep(broker_id, urls.admin_url, source, is_tls=False),
            admin_url_tls=self._keep(broker_id, urls.admin_url_tls, source, is_tls=True),
        )
        if len(self._bound) >= _MAX_REMEMBERED:
            self._bound.clear()
        self._bound[source, broker_id] = urls, bound
        return bound

    def url_of(self, urls: BrokerUrls, source: AddressSource, *, requires_tls: bool = False) -> str:
        """Where requests to a broker go: to its https address for administration if it has one.

        Raises:
            HttpError: it has no address to which the token may go; says why, and what to do.
        """
        plain, over_tls = urls.for_administration
        is_tls = bool(over_tls) or requires_tls
        url = over_tls or plain
        if not url:
            raise HttpError(f"{_shown(urls.broker_id)} has no web address")
        if reason := self._refusal(urls.broker_id, url, is_tls=is_tls):
            self.refuse(urls.broker_id, reason, source)
            raise HttpError(reason)
        return url.rstrip("/")

    def _keep(
        self, broker_id: str, url: str | None, source: AddressSource, *, is_tls: bool
    ) -> str | None:
        reason = self._refusal(broker_id, url, is_tls=is_tls) if url else ""
        if reason:
            self.refuse(broker_id, reason, source)
        return None if reason else url

    def _refusal(self, broker_id: str, url: str, *, is_tls: bool) -> str:
        """Why an address must not stand for a broker; empty: it may."""
        where = f"the web address {_shown(_USER.sub('//***@', url))} of {_shown(broker_id)}"
        try:
            address = WebAddress.parse(url)
        except ValueError as error:
            return f"{where} {error}"
        if is_tls and address.scheme != "https":
            return f"{where} is not https, as TLS for requests to brokers asks for"
        if self._allowed.entries:
            if self._allowed.allows(address.host):
                return ""
            return f"{where} is not at a host in {self._setting} ({self._allowed})"
        if address.host == web_address_host_of(broker_id):
            return ""
        return f"{where} is not at the host of that id; {self._setting} lists other hosts"

    def refuse(self, broker_id: str, reason: str, source: AddressSource) -> None:
        """Count an address that must not be used, and log the first one of each broker."""
        self.refused[source] += 1
        if (source, broker_id) not in self._logged and len(self._logged) < _MAX_REMEMBERED:
            self._logged.add((source, broker_id))
            log.warning("refused what a %s node names: %s", source, reason)


class PeerHttp:
    """HTTP to brokers, at their bound addresses only.

    Args:
        http: carries no token.
        registered: addresses of a live broker by its registration; None: it has none, and is not
            called.
        requires_tls: whether requests go to https addresses only.
        sign_for: how a request to a broker is signed, for a start that it has named; None: the
            cluster has no keys.
        tls_for: the context in which a broker has to prove its id; None: brokers do not.
    """

    def __init__(
        self,
        http: HttpClient,
        addresses: PeerAddresses,
        registered: Callable[[str], BrokerUrls | None],
        *,
        requires_tls: bool = False,
        sign_for: SignFor | None = None,
        tls_for: Callable[[str], SSLContext] | None = None,
    ) -> None:
        self._requires_tls = requires_tls
        self._tls_for = tls_for
        self._sign_for = sign_for
        self._http = http
        self._addresses = addresses
        self._registered = registered

    async def request(
        self,
        method: str,
        broker: BrokerUrls,
        path: str,
        source: AddressSource,
        *,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
    ) -> HttpReply:
        """Send one request to a broker, at the address of its registration.

        ``source`` is the kind of the node that names ``broker``.

        Raises:
            HttpError: as `HttpClient.request`, or the broker has no address that may be called.
        """
        found = self._registered(broker.broker_id)
        if found is None:
            # Judged in any case, so that a forged node is counted.
            self._addresses.url_of(broker, source)
            raise HttpError(f"{_shown(broker.broker_id)} is not registered")
        url = self._addresses.url_of(
            found, AddressSource.REGISTRATION, requires_tls=self._requires_tls
        )
        sign_for, tls_for = self._sign_for, self._tls_for

        async def send(start: str = "") -> HttpReply:
            return await self._http.request(
                method,
                f"{url}{path}",
                json=json,
                content=content,
                timeout_s=timeout_s,
                sign=_with_cause(None if sign_for is None else sign_for(broker.broker_id, start)),
                ssl=None if tls_for is None else tls_for(broker.broker_id),
            )

        try:
            reply = await send()
            # It has just started, and has refused the request before it read what it says.
            start = reply.headers.get(START_HEADER, "")
            is_wanted = reply.status == HTTPStatus.TOO_EARLY and _START.fullmatch(start)
            return await send(start) if is_wanted else reply
        except CertificateRefused as error:
            self._addresses.refuse(broker.broker_id, str(error), AddressSource.REGISTRATION)
            raise


def _with_cause(sign: Sign | None) -> Sign | None:
    """The headers of a request, with the id of the operator's request that causes it."""
    cause = caused_by.get()
    if not cause:
        return sign

    def headers(method: str, path: str, body: bytes) -> Mapping[str, str]:
        signed = {} if sign is None else sign(method, path, body)
        return {**signed, REQUEST_ID: cause}

    return headers


def urls_at(broker_id: str, address: str) -> BrokerUrls:
    """The addresses of a broker of which a record has a single one."""
    if address.startswith("https://"):
        return BrokerUrls(broker_id, web_url_tls=address)
    return BrokerUrls(broker_id, web_url=address)


def _shown(text: str) -> str:
    """In quotes and escaped: a name from ZooKeeper must not forge lines of the log."""
    return repr(text[:_MAX_SHOWN])
