"""Names of topics and namespaces, and the rings on which topics have their place."""

import re
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, Generic, Self, TypeVar

from broker_ctl.errors import BundleGone, InvalidName

# Topic and namespace names (docs: pulsar-topic-names), and a topic's position on the ring.


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


# Bundle: a contiguous hash range of a namespace, the unit that is owned and moved.
#
# Docs: pulsar-hash.


_RANGE = re.compile(r"0x([0-9a-fA-F]{8})_0x([0-9a-fA-F]{8})")


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """``[low, high)`` on the ring; the last range of a namespace also holds its upper end."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not RING_LOW <= self.low < self.high <= RING_HIGH:
            raise InvalidName(f"range {self}: the lower bound must be below the upper one")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0x%08x_0x%08x``.

        Raises:
            InvalidName: the text has another form, or the range is empty.
        """
        match = _RANGE.fullmatch(text)
        if match is None:
            raise InvalidName(f"{text!r}: a bundle range is 0x00000000_0x40000000")
        return cls(int(match[1], 16), int(match[2], 16))

    def __str__(self) -> str:
        return f"0x{self.low:08x}_0x{self.high:08x}"

    def __contains__(self, position: int) -> bool:
        return self.low <= position < self.high or position == self.high == RING_HIGH

    def overlaps(self, other: "BundleRange") -> bool:
        """Return whether the ranges share at least one hash."""
        return self.low < other.high and other.low < self.high

    @property
    def can_split(self) -> bool:
        """Return whether a boundary fits strictly inside the range."""
        return self.high - self.low > 1

    @property
    def middle(self) -> tuple[int, ...]:
        """Return the boundary that halves the range; none if the range is too small to be split."""
        return (self.low + (self.high - self.low) // 2,) if self.can_split else ()


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """A range of one namespace; its key is ``tenant/ns/range``."""

    namespace: Namespace
    range: BundleRange
    # Nearly every mapping of the cluster is keyed by bundles, so the hash is computed only once.
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.namespace, self.range)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Bundle"], tuple[Namespace, BundleRange]]:
        # String hashes differ between processes, so an unpickled bundle computes its hash again.
        return Bundle, (self.namespace, self.range)

    @classmethod
    def parse(cls, key: str) -> Self:
        """Read ``tenant/ns/0xLOW_0xHIGH``.

        Raises:
            InvalidName: the text has another form.
        """
        namespace, _, text = key.rpartition("/")
        return cls(Namespace.parse(namespace), BundleRange.parse(text))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"

    def overlaps(self, other: "Bundle") -> bool:
        """Return whether a topic could belong to both bundles."""
        return self.namespace == other.namespace and self.range.overlaps(other.range)

    def joined(self, right: "Bundle") -> "Bundle":
        """Return the bundle that replaces this one and ``right`` after a merge.

        Raises:
            InvalidName: ``right`` does not begin where this bundle ends.
        """
        if self.namespace != right.namespace or self.range.high != right.range.low:
            raise InvalidName(f"{right} does not begin where {self} ends")
        return Bundle(self.namespace, BundleRange(self.range.low, right.range.high))

    def cut(self, boundaries: tuple[int, ...]) -> tuple["Bundle", ...]:
        """Return the children that replace this bundle after a split at ``boundaries``.

        Raises:
            InvalidName: there are no boundaries, or one is not strictly inside the bundle.
        """
        low, high = self.range.low, self.range.high
        inside = sorted(set(boundaries))
        if not inside or not all(low < boundary < high for boundary in inside):
            raise InvalidName(f"{self}: boundaries must lie strictly inside the bundle")
        points = [low, *inside, high]
        return tuple(Bundle(self.namespace, BundleRange(a, b)) for a, b in pairwise(points))


# The ring of one namespace: its ordered boundaries (docs: pulsar-hash).


MAX_BUNDLES = 1 << 32


@dataclass(frozen=True)
class Ring:
    """Boundaries ``b0 < ... < bN`` from 0x00000000 to 0xffffffff: N bundles.

    ``version`` is the data version of the local-policies node that the ring was read from. Every
    acquisition checks it, so that no broker acquires the parent of a split with a stale ring (I5).
    """

    namespace: Namespace
    boundaries: tuple[int, ...]
    version: int
    # Cache of bundles by the index of their upper end, filled on demand: each bundle answers
    # thousands of lookups, but a large ring has many bundles that are never looked up.
    _found: dict[int, Bundle] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        points = self.boundaries
        grows = all(a < b for a, b in pairwise(points))
        if len(points) < 2 or points[0] != RING_LOW or points[-1] != RING_HIGH or not grows:
            raise InvalidName(
                f"{self.namespace}: boundaries must grow from 0x00000000 to 0xffffffff",
            )

    @classmethod
    def even(cls, namespace: Namespace, bundles: int, version: int = 0) -> Self:
        """Return a ring of ``bundles`` equal ranges.

        Raises:
            InvalidName: the number is not within 1 to 2^32 - 1.
        """
        if not 0 < bundles < MAX_BUNDLES:
            raise InvalidName(f"number of bundles {bundles}: 1 to {MAX_BUNDLES - 1}")
        segment = (RING_HIGH + 1) // bundles
        return cls(namespace, (*(i * segment for i in range(bundles)), RING_HIGH), version)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """All bundles, in ascending order of their ranges."""
        points = self.boundaries
        return tuple(Bundle(self.namespace, BundleRange(a, b)) for a, b in pairwise(points))

    def find(self, position: int) -> Bundle:
        """Return the bundle of a hash; 0xffffffff, at which Pulsar fails, is in the last one."""
        points = self.boundaries
        index = min(bisect_right(points, position), len(points) - 1)
        found = self._found.get(index)
        if found is None:
            span = BundleRange(points[index - 1], points[index])
            found = self._found[index] = Bundle(self.namespace, span)
        return found

    def bundle_of(self, topic: Topic) -> Bundle:
        """Return the bundle of a topic."""
        return self.find(topic.ring_hash)

    def __contains__(self, bundle: Bundle) -> bool:
        low, high = bundle.range.low, bundle.range.high
        index = bisect_right(self.boundaries, low)
        if self.boundaries[index - 1 : index + 1] != (low, high):
            return False
        # To compare what is nearly always the same object takes longer than all else here.
        return bundle.namespace is self.namespace or bundle.namespace == self.namespace

    def split(self, bundle: Bundle, boundaries: tuple[int, ...]) -> Self:
        """Return the ring after a split; it keeps the version for the compare-and-set.

        Raises:
            BundleGone: ``bundle`` is not in the ring.
            InvalidName: a boundary is not strictly inside ``bundle``.
        """
        if bundle not in self:
            raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        bundle.cut(boundaries)
        points = tuple(sorted({*self.boundaries, *boundaries}))
        return type(self)(self.namespace, points, self.version)

    def merge(self, left: Bundle, right: Bundle) -> Self:
        """Return the ring after a merge; it keeps the version for the compare-and-set.

        Raises:
            BundleGone: one of the bundles is not in the ring.
            InvalidName: the bundles are not adjacent.
        """
        for bundle in (left, right):
            if bundle not in self:
                raise BundleGone(f"{bundle} is not a bundle of {self.namespace}")
        if left.range.high != right.range.low:
            raise InvalidName(f"{left} and {right} do not touch")
        points = tuple(point for point in self.boundaries if point != left.range.high)
        return type(self)(self.namespace, points, self.version)

    def around(self, owned: Iterable[Bundle]) -> Self:
        """Return the ring with each of these bundles, which do not overlap, as one of its own.

        It keeps the version, and its other boundaries where they are in none of them.
        """
        ranges = [bundle.range for bundle in owned]
        bounds = {point for span in ranges for point in (span.low, span.high)}
        others = (p for p in self.boundaries if not any(s.low < p < s.high for s in ranges))
        return type(self)(self.namespace, tuple(sorted({*others, *bounds})), self.version)


# Index of a namespace's bundles by range, to find those that overlap a bundle to be acquired.


_T = TypeVar("_T")


class RangeIndex(Generic[_T]):
    """Values by range; finds those that overlap a given range without scanning all of them.

    Ranges may overlap each other. A range whose start is further below the given one than the
    widest range ever stored cannot overlap it, so the search begins there.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], _T] = {}
        self._in_order: list[tuple[int, int]] = []
        self._widest = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, span: BundleRange, value: _T) -> None:
        """Store the value of a range; replaces an earlier value of the same range."""
        ends = span.low, span.high
        if ends not in self._values:
            self._in_order.insert(bisect_left(self._in_order, ends), ends)
            self._widest = max(self._widest, span.high - span.low)
        self._values[ends] = value

    def remove(self, span: BundleRange) -> None:
        """Remove a range, which must be present."""
        ends = span.low, span.high
        del self._values[ends]
        del self._in_order[bisect_left(self._in_order, ends)]

    def overlapping(self, span: BundleRange) -> Iterator[_T]:
        """Return the values of all ranges that overlap ``span``, in ascending order."""
        first = bisect_right(self._in_order, (span.low - self._widest, 0))
        end = bisect_left(self._in_order, (span.high, 0))
        return (self._values[ends] for ends in self._in_order[first:end] if ends[1] > span.low)


# Where the partitions of topics are on the rings of their namespaces (docs: pulsar-binary-lookup).
#
# A partition is a topic of its own, ``NAME-partition-0`` and so on. Its hash says in which bundle
# it is, so the number of partitions of each topic is all that has to be known.


# Partitions of each topic, by its complete name.
PartitionCounts = Mapping[str, int]
NO_PARTITIONS: Final[PartitionCounts] = {}
# Of one topic, as many as partitioned topics may be created with: a node may hold any number.
MAX_PARTITIONS: Final = 65_536
# Ascending hashes, and the topic of each.
_Ring = tuple[list[int], list[str]]


class TopicPartitions:
    """The partitioned topics of a cluster, by namespace; a value that does not change.

    The hashes of a namespace are computed when they are needed first.

    Args:
        partitions: of each topic with more than one.
        rings: hashes that are known already.
    """

    def __init__(
        self,
        partitions: Mapping[Namespace, PartitionCounts] | None = None,
        rings: Mapping[Namespace, _Ring] | None = None,
    ) -> None:
        self._partitions = partitions or {}
        self._rings = dict(rings or {})

    def replaced(self, topics: Iterable[tuple[Topic, int]]) -> "TopicPartitions":
        """Return the value for these topics; hashes of unchanged namespaces stay."""
        found: dict[Namespace, dict[str, int]] = {}
        for topic, partitions in topics:
            if partitions > 1:
                counted = min(partitions, MAX_PARTITIONS)
                found.setdefault(topic.namespace, {})[str(topic)] = counted
        before = self._partitions
        kept = {
            namespace: ring
            for namespace, ring in tuple(self._rings.items())
            if found.get(namespace) == before.get(namespace)
        }
        return TopicPartitions(found, kept)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def total(self, namespace: Namespace, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._partitions.get(namespace, NO_PARTITIONS).get(topic, 0)

    def of(self, bundle: Bundle) -> PartitionCounts:
        """Return the partitions in a bundle, by topic."""
        if bundle.namespace not in self._partitions:
            return NO_PARTITIONS
        hashes, topics = self._ring(bundle.namespace)
        span = bundle.range
        # The last range of a ring has its upper end too.
        end = span.high + (span.high == RING_HIGH)
        low, high = bisect_left(hashes, span.low), bisect_left(hashes, end)
        return Counter(topics[low:high])

    def after(
        self, counts: PartitionCounts, gone: Iterable[Bundle], come: Iterable[Bundle]
    ) -> PartitionCounts:
        """Return a broker's partitions after some bundles have gone, and others have come."""
        if not self._partitions:
            return NO_PARTITIONS
        changed = Counter(counts)
        for bundle in come:
            changed.update(self.of(bundle))
        for bundle in gone:
            changed.subtract(self.of(bundle))
        return {topic: count for topic, count in changed.items() if count > 0}

    def _ring(self, namespace: Namespace) -> _Ring:
        known = self._rings.get(namespace)
        if known is None:
            found = sorted(
                (ring_hash(f"{topic}-partition-{number}"), topic)
                for topic, partitions in self._partitions[namespace].items()
                for number in range(partitions)
            )
            known = [each for each, _ in found], [topic for _, topic in found]
            self._rings[namespace] = known
        return known


NO_TOPIC_PARTITIONS: Final = TopicPartitions()
