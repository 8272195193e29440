"""Brokers: their addresses, and the constraints of operators on what they serve."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Final, Self

from broker_ctl.core.model.names import NO_TOPIC_PARTITIONS, Namespace, TopicPartitions
from broker_ctl.core.model.regular_expressions import is_match

# Addresses of a broker.


@dataclass(frozen=True, slots=True, order=True)
class AdvertisedListener:
    """One named listener of a broker."""

    name: str
    native_url: str | None = None
    native_url_tls: str | None = None
    web_url: str | None = None
    web_url_tls: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerUrls:
    """A broker's id and its addresses; an address that the broker does not have is None.

    ``broker_id`` is the advertised host and the web port, ``broker-1:8080``. Listeners are sorted
    by name, so that equal sets are equal values. With an admin address, the web addresses serve
    clients only.
    """

    broker_id: str
    web_url: str | None = None
    web_url_tls: str | None = None
    native_url: str | None = None
    native_url_tls: str | None = None
    listeners: tuple[AdvertisedListener, ...] = ()
    admin_url: str | None = None
    admin_url_tls: str | None = None

    @property
    def for_administration(self) -> tuple[str | None, str | None]:
        """Where operators and other brokers call it, in the clear and over TLS."""
        if self.admin_url or self.admin_url_tls:
            return self.admin_url, self.admin_url_tls
        return self.web_url, self.web_url_tls


@dataclass(frozen=True, slots=True)
class LookupUrls:
    """Addresses at which a daemon answers lookups of the binary protocol; a missing one is None.

    The broker process beside the daemon has other addresses, and does not answer lookups.
    """

    url: str | None = None
    url_tls: str | None = None
    listeners: tuple[AdvertisedListener, ...] = ()

    def at(self, listener_name: str) -> "LookupUrls":
        """The addresses for clients of a listener: its own if it has any."""
        for one in self.listeners:
            if one.name == listener_name and (one.native_url or one.native_url_tls):
                return LookupUrls(one.native_url, one.native_url_tls)
        return self


NO_LOOKUP_URLS: Final = LookupUrls()


def broker_id_of(url: str) -> str:
    """Return the broker id in a web URL: releases before the id was written need it."""
    return url.rpartition("://")[2].rstrip("/")


# Constraints of operators on where bundles may be placed (docs: pulsar-isolation).


# The failure domain of brokers that operators have put in none; theirs never have an empty name.
_NO_DOMAIN: Final = ""


def host_of(broker_id: str) -> str:
    """Return the host in a broker id: everything before the last colon."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else broker_id


class UnloadScope(StrEnum):
    """Which namespaces are unloaded when a policy is set."""

    ALL_MATCHING = "all_matching"
    NONE = "none"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Restricts the namespaces that it matches to certain brokers.

    Attributes:
        name: the policy's key among the cluster's policies.
        namespaces: regular expressions, each for a whole ``tenant/namespace``.
        primary, secondary: regular expressions, each for the whole host of a broker: its id
            without the port.
        min_available: secondaries also serve while fewer primaries than this are available.
        usage_threshold: percent; stored for Pulsar, which ignores it in placement, too.
        unload_scope: namespaces that are unloaded when the policy is set; None: not specified.
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_available: int = 1
    usage_threshold: int = 100
    unload_scope: UnloadScope | None = None

    def covers(self, namespace: Namespace) -> bool:
        """Return whether the policy applies to the namespace."""
        return _is_any(self.namespaces, str(namespace))

    def is_primary(self, broker_id: str) -> bool:
        """Return whether the broker is a primary of this policy."""
        return _is_any(self.primary, host_of(broker_id))

    def is_secondary(self, broker_id: str) -> bool:
        """Return whether the broker is a secondary; a broker that matches both is a primary."""
        return _is_any(self.secondary, host_of(broker_id)) and not self.is_primary(broker_id)

    def admits(self, broker_id: str, available: int) -> bool:
        """Return whether the broker may serve while ``available`` primaries are available."""
        if self.is_primary(broker_id):
            return True
        return available < self.min_available and self.is_secondary(broker_id)


@dataclass(frozen=True, slots=True)
class Constraints:
    """All placement constraints of a cluster.

    Attributes:
        isolation: isolation policies in order; the first one that matches a namespace applies.
        domain_of: failure domain by broker id; all brokers that are not listed share one domain.
        group_of: anti-affinity group by namespace, in lower case.
        topics: the partitioned topics; only the leader knows them.
    """

    isolation: tuple[IsolationPolicy, ...] = ()
    domain_of: Mapping[str, str] = field(default_factory=dict)
    group_of: Mapping[Namespace, str] = field(default_factory=dict)
    topics: TopicPartitions = NO_TOPIC_PARTITIONS

    def policy_of(self, namespace: Namespace) -> IsolationPolicy | None:
        """Return the policy that applies to a namespace; None: it uses the shared brokers."""
        return next((policy for policy in self.isolation if policy.covers(namespace)), None)

    def reserved_by(self, broker_id: str) -> IsolationPolicy | None:
        """Return a policy with the broker as a primary; None: the broker is a shared one."""
        return next((policy for policy in self.isolation if policy.is_primary(broker_id)), None)

    def domain(self, broker_id: str) -> str:
        """Return the broker's failure domain."""
        return self.domain_of.get(broker_id, _NO_DOMAIN)


NO_CONSTRAINTS: Final = Constraints()


def _is_any(patterns: tuple[str, ...], text: str) -> bool:
    return any(is_match(pattern, text) for pattern in patterns)


# Web addresses of brokers as records name them, and the hosts at which brokers may be.


# Nothing is left open to two readings: parsers differ in what they do with a backslash, user
# information or a blank.
_HOST: Final = r"(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_ADDRESS: Final = re.compile(rf"(?P<scheme>https?)://{_HOST}(?P<port>:[0-9]{{1,5}})?/?")
_BROKER_ID: Final = re.compile(rf"{_HOST}:(?P<port>[0-9]{{1,5}})")
# A label of DNS has at most 63 octets, and a name 253.
_MOST_BROKER_ID: Final = 260
# An entry for all names without a dot: the resolver of one network has them all.
_UNDOTTED: Final = "."
# Top-level domains of private networks: nobody can buy a name there. Elsewhere only a list that is
# never complete separates a domain of one owner from one of many, as co.uk and those of clouds.
_PRIVATE: Final = frozenset({"internal", "lan", "local", "localdomain", "svc", "test"})


@dataclass(frozen=True, slots=True)
class WebAddress:
    """``http://host:port`` or ``https://host:port``; the host is in its canonical form.

    Attributes:
        text: as written, without a slash at the end.
    """

    scheme: str
    host: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            ValueError: it has another scheme, or a user, a path, a query or anything else.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None or (match["host"].startswith("[") and not _is_ip(match["host"][1:-1])):
            raise ValueError("is not http://host:port or https://host:port")
        return cls(match["scheme"], canonical_host(match["host"]), text.removesuffix("/"))


def canonical_host(host: str) -> str:
    """A host name in lower case, or an IP address without brackets in its shortest form."""
    bare = host.strip("[]").lower().rstrip(".")
    try:
        return ip_address(bare).compressed
    except ValueError:
        return bare


def is_broker_id(text: str) -> bool:
    """Whether a text is ``host:port`` with the form of a host, as every id of a broker.

    Ids become words of commands, segments of paths and labels: whatever else a node or another
    program calls a broker is none.
    """
    if len(text) > _MOST_BROKER_ID:
        return False
    match = _BROKER_ID.fullmatch(text)
    return match is not None and (not match["host"].startswith("[") or _is_ip(match["host"][1:-1]))


def web_address_host_of(broker_id: str) -> str:
    """The host in ``host:port``."""
    host, _, port = broker_id.rpartition(":")
    return canonical_host(host if host and port.isdigit() else broker_id)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """A list of hosts; ``.example.com`` stands for every name below that domain."""

    entries: tuple[str, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """The list as operators write it."""
        return cls(tuple(canonical_host(text) for text in texts))

    @classmethod
    def around(cls, hosts: Iterable[str]) -> Self:
        """These hosts, and all names of their domains where these are of a private network."""
        entries: dict[str, None] = {}
        for host in map(canonical_host, hosts):
            entries[host] = None
            domain = host.partition(".")[2]
            if _is_undotted_name(host):
                entries[_UNDOTTED] = None
            elif "." in domain and domain.rpartition(".")[2] in _PRIVATE:
                entries[f".{domain}"] = None
        return cls(tuple(entries))

    def allows(self, host: str) -> bool:
        """Whether the host is in the list."""
        host = canonical_host(host)
        if host in self.entries or (_UNDOTTED in self.entries and _is_undotted_name(host)):
            return True
        domains = (entry for entry in self.entries if entry.startswith(".") and len(entry) > 1)
        return any(host.endswith(domain) for domain in domains)

    def __str__(self) -> str:
        return ", ".join(self.entries)


def _is_undotted_name(host: str) -> bool:
    """Such as ``broker-1``. Digits alone, and 0x7f000001, are IP addresses to a resolver."""
    return host[:1].isalpha() and "." not in host and ":" not in host


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
