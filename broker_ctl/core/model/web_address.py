"""Web addresses of brokers as records name them, and the hosts at which brokers may be."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Self

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


def host_of(broker_id: str) -> str:
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
