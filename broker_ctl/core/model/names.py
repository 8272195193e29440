"""Topic and namespace names (docs: pulsar-topic-names), and a topic's position on the ring."""

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from broker_ctl.errors import InvalidName

PERSISTENT: Final = "persistent"
NON_PERSISTENT: Final = "non-persistent"
DOMAINS: Final = (PERSISTENT, NON_PERSISTENT)
# Pulsar's NamedEntity: characters allowed in a tenant, cluster or namespace name.
_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_MAX_TOPIC_BYTES = 4096

RING_LOW: Final = 0x00000000
RING_HIGH: Final = 0xFFFFFFFF


def ring_hash(full_topic_name: str) -> int:
    """CRC-32 of the complete topic name, an unsigned 32-bit integer (docs: pulsar-hash)."""
    return zlib.crc32(full_topic_name.encode())


def _entity(kind: str, text: str, whole: str) -> str:
    # ZooKeeper and HTTP servers would treat "." and ".." as relative path steps.
    if not _ENTITY.fullmatch(text) or text in {".", ".."}:
        raise InvalidName(f"{whole!r}: {kind} {text!r} may hold letters, digits and -=:._ only")
    return text


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """Named set of topics that share one bundle set: ``tenant/name``."""

    tenant: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Namespace":
        """Read ``tenant/name``.

        Raises:
            InvalidName: another form, for example a V1 name (``tenant/cluster/name``).
        """
        return _namespace(text)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"

    @property
    def is_pinned(self) -> bool:
        """Heartbeat and SLA namespaces stay with their broker and are never shed."""
        return self.tenant == "sla-monitor" or (self.tenant == "pulsar" and ":" in self.name)


# Every lookup parses a namespace, and lookups far outnumber namespaces.
@lru_cache(maxsize=4096)
def _namespace(text: str) -> Namespace:
    parts = text.split("/")
    if len(parts) != 2:
        raise InvalidName(f"{text!r}: a namespace is tenant/name")
    return Namespace(_entity("tenant", parts[0], text), _entity("namespace", parts[1], text))


@dataclass(frozen=True, slots=True, order=True)
class Topic:
    """A topic by its complete name, ``domain://tenant/namespace/local``."""

    domain: str
    namespace: Namespace
    local: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a complete name, ``tenant/ns/x``, or ``x`` (in public/default).

        Raises:
            InvalidName: wrong number of parts, unknown domain, a V1 name, an empty local name.
        """
        domain, scheme, rest = text.partition("://")
        if not scheme:
            domain, rest = "persistent", text
            slashes = text.count("/")
            if slashes == 0:
                rest = f"public/default/{text}"
            elif slashes != 2:
                raise InvalidName(
                    f"{text!r}: a topic is x, tenant/ns/x or domain://tenant/ns/x",
                )
        domain = domain.lower()
        parts = rest.split("/", 3)
        if len(parts) == 4:
            raise InvalidName(f"{text!r}: V1 names (tenant/cluster/ns/x) are not supported")
        if len(parts) != 3:
            raise InvalidName(f"{text!r}: a topic is x, tenant/ns/x or domain://tenant/ns/x")
        return cls.of(domain, Namespace.parse(f"{parts[0]}/{parts[1]}"), parts[2])

    @classmethod
    def of(cls, domain: str, namespace: Namespace, local: str) -> Self:
        """Build a topic from its parts; ``local`` is already URL-decoded.

        Raises:
            InvalidName: unknown domain, or an empty or too long local name, or one with a slash.
        """
        if domain not in DOMAINS:
            raise InvalidName(f"unknown domain {domain!r}: persistent or non-persistent")
        if "/" in local:
            # Its written form would be a V1 name.
            raise InvalidName(f"{domain}://{namespace}/{local!r}: a local name has no slash")
        if local in {".", ".."}:
            # HTTP clients take these for steps of a path, and ask for something else.
            raise InvalidName(f"{domain}://{namespace}/{local}: a local name is not . or ..")
        if not local or "\x00" in local:
            raise InvalidName(f"{domain}://{namespace}/{local!r}: the local name is not usable")
        try:
            size_bytes = len(local.encode())
        except UnicodeEncodeError as error:
            raise InvalidName(f"{local!r}: not valid unicode text") from error
        if size_bytes > _MAX_TOPIC_BYTES:
            raise InvalidName(f"local name of {size_bytes} bytes; at most {_MAX_TOPIC_BYTES}")
        return cls(domain, namespace, local)

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local}"

    @property
    def ring_hash(self) -> int:
        """The topic's position on the ring, an unsigned 32-bit integer."""
        return ring_hash(str(self))
