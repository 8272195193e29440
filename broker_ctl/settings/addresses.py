"""Addresses as settings write them: host and port, store URL, advertised listener, HTTP URL."""

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import ClassVar, Final, Self

DEFAULT_ZOOKEEPER_PORT: Final = 2181
# Letters, digits, dots and dashes; an IPv6 address is in brackets if a port may follow.
HOST: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+"
_HOST = re.compile(HOST)
# A name whose last part is a number would be taken for an IPv4 address.
_NUMERIC = re.compile(r"(?:.*\.)?[0-9]+")
_BROADCAST: Final = "255.255.255.255"
_HOST_PORT = re.compile(
    r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[^:]*))?", re.DOTALL
)
_FOREIGN_STORES: Final = ("etcd:", "rocksdb:", "memory:", "oxia:")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_KUBERNETES_NAME: Final = re.compile(rf"(?:{_LABEL}/)?{_LABEL}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener that is bound to ``host``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(host: str) -> None:
    """Refuse what is neither a host name nor an IP address.

    Raises:
        ValueError: says why.
    """
    if host.startswith("[") and host.endswith("]"):
        raise ValueError("an IPv6 address is written without brackets here")
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is not a host")
    if ":" in host or _NUMERIC.fullmatch(host):
        try:
            ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an IP address") from None


def check_published_host(host: str) -> None:
    """Refuse also an address at which nobody can reach a broker.

    Raises:
        ValueError: says why.
    """
    check_host(host)
    try:
        address = ip_address(host)
    except ValueError:
        return
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_unspecified:
        raise ValueError(f"{host} stands for all addresses of a machine: nobody can connect to it")
    if mapped.is_multicast or str(mapped) == _BROADCAST:
        raise ValueError(f"{host} is the address of no single machine")
    if address.version == 6 and address.is_link_local:
        raise ValueError(f"{host} is known on its own link only")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """``host:port``, an IPv6 host in brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> Self:
        """Parse ``host:port``, or ``host`` alone if there is a default port.

        Raises:
            ValueError: the host is missing or malformed, or the port is not from 1 to 65535.
        """
        match = _HOST_PORT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not host:port")
        host = match["name"] if match["v6"] is None else match["v6"]
        if not host:
            raise ValueError(f"no host in {text!r}")
        if match["v6"] is not None and not _is_v6(host):
            raise ValueError(f"{host!r} is not a host")
        check_host(host)
        if match["port"] is None and default_port is not None:
            return cls(host, default_port)
        return cls(host, _port(match["port"] or "", text))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_v6(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False


def _port(text: str, whole: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65_535:
        raise ValueError(f"port {text!r} in {whole!r} is not 1 to 65535")
    return int(text)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A ZooKeeper ensemble: ``zk:host:port,host:port/chroot``.

    Attributes:
        chroot: absolute path of the node below which all nodes are; empty for the root.
    """

    servers: tuple[Address, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Pulsar's ``zk:h1:2181,h2:2181/chroot``; ``zk:`` and the ports are optional.

        Raises:
            ValueError: another kind of store, no host, a bad port, or a chroot that is not an
                absolute path.
        """
        if text.startswith(_FOREIGN_STORES):
            raise ValueError("ZooKeeper is the only metadata store")
        hosts, slash, rest = text.removeprefix("zk:").partition("/")
        if not hosts.strip():
            raise ValueError("no host")
        servers = tuple(
            Address.parse(host.strip(), DEFAULT_ZOOKEEPER_PORT) for host in hosts.split(",")
        )
        return cls(servers, _chroot(slash + rest))

    def __str__(self) -> str:
        return f"zk:{','.join(map(str, self.servers))}{self.chroot}"


class StateKind(StrEnum):
    """Where the state of a process is that does not read the cluster's metadata store."""

    MEMORY = "memory"
    FILE = "file"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class StateUrl:
    """``memory:``, ``file:/directory``, ``kubernetes:name`` or ``kubernetes:namespace/name``.

    Attributes:
        path: the directory, or the name; without a namespace, that of the pod is meant.
    """

    kind: StateKind
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text.

        Raises:
            ValueError: another kind, a relative directory, or a name that Kubernetes refuses.
        """
        scheme, _, path = text.partition(":")
        try:
            kind = StateKind(scheme)
        except ValueError:
            kinds = ", ".join(f"{kind}:" for kind in StateKind)
            raise ValueError(f"{text!r} begins with none of {kinds}") from None
        if kind is StateKind.MEMORY and path:
            raise ValueError("memory: has no path")
        if kind is StateKind.FILE and not path.startswith("/"):
            raise ValueError(f"directory {path!r} is not an absolute path")
        if kind is StateKind.KUBERNETES and not _KUBERNETES_NAME.fullmatch(path):
            raise ValueError(f"{path!r} is not name or namespace/name")
        return cls(kind, path)

    def __str__(self) -> str:
        return f"{self.kind}:{self.path}"


def _chroot(path: str) -> str:
    if path in {"", "/"}:
        return ""
    if any(part in {"", ".", ".."} or "," in part for part in path[1:].split("/")):
        raise ValueError(f"chroot {path!r} is not an absolute path")
    if re.search(r"[\s#]", path):
        raise ValueError(f"chroot {path!r} has a blank or #: a comment has a line of its own")
    return path


@dataclass(frozen=True, slots=True)
class Listener:
    """An advertised listener: ``name:scheme://host:port``."""

    SCHEMES: ClassVar[tuple[str, ...]] = ("pulsar", "pulsar+ssl", "http", "https")

    name: str
    scheme: str
    address: Address

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Pulsar's ``name:pulsar://host:port``.

        Raises:
            ValueError: the name, or host and port, are missing, or the scheme is unknown.
        """
        name, _, url = text.partition(":")
        scheme, separator, address = url.partition("://")
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or not separator:
            raise ValueError(f"{text!r} is not name:scheme://host:port")
        if scheme not in cls.SCHEMES:
            raise ValueError(f"scheme {scheme!r} is not one of {', '.join(cls.SCHEMES)}")
        found = Address.parse(address)
        check_published_host(found.host)
        return cls(name, scheme, found)

    @property
    def url(self) -> str:
        """The URL, without the name."""
        return f"{self.scheme}://{self.address}"

    def __str__(self) -> str:
        return f"{self.name}:{self.url}"


@dataclass(frozen=True, slots=True)
class LookupListener(Listener):
    """A listener of the daemon's own binary protocol: ``name:pulsar://host:port``."""

    SCHEMES: ClassVar[tuple[str, ...]] = ("pulsar", "pulsar+ssl")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """``http://host:port/path`` or ``https``; secrets belong in files, never in a URL."""

    scheme: str
    address: Address
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an absolute URL; the port is optional, a trailing slash is dropped.

        Raises:
            ValueError: another scheme, no host, or a user, query or fragment.
        """
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in {"http", "https"}:
            raise ValueError("not an http:// or https:// URL")
        host, slash, path = rest.partition("/")
        if re.search(r"[?#@\s]", rest):
            raise ValueError("the URL must not have a user, a query or a fragment")
        address = Address.parse(host, 80 if scheme == "http" else 443)
        return cls(scheme, address, (slash + path).rstrip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}{self.path}"
