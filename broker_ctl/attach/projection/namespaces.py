"""Rings and groups of the namespaces that have owned bundles."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.attach.reader import ClusterReader
from broker_ctl.clock import Clock
from broker_ctl.codec import encode
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import CorruptRecord, PeerRefused
from broker_ctl.store import paths
from broker_ctl.store.in_process.store import Projected
from broker_ctl.store.records.policies import LocalPolicies

# A ring is read again when a bundle is owned that it does not have; and now and then, as nobody
# may own the parts of a bundle yet.
_KNOWN_S: Final = 60.0
# So that thousands of namespaces, which grow old together, are not asked for at once.
_MOST_A_LOOK: Final = 64


@dataclass
class _KnownNamespace:
    ring: Mapping[str, Any]
    group: str | None
    bundles: frozenset[str]
    read_s: float


class ProjectedNamespaces:
    """What is known of each namespace."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._known: dict[Namespace, _KnownNamespace] = {}

    async def read(self, owned: Collection[Bundle]) -> None:
        """Read those of these bundles that are not known, and the oldest of the others.

        Raises:
            PeerUnreachable, PeerRefused: the cluster does not answer.
        """
        ranges: dict[Namespace, set[str]] = defaultdict(set)
        for bundle in owned:
            ranges[bundle.namespace].add(str(bundle.range))
        self._known = {name: known for name, known in self._known.items() if name in ranges}
        now_s = self._clock.now_s()
        urgent, old = [], []
        for namespace, names in ranges.items():
            known = self._known.get(namespace)
            if known is None or not names <= known.bundles:
                urgent.append(namespace)
            elif now_s - known.read_s > _KNOWN_S:
                old.append((known.read_s, namespace))
        for namespace in (*urgent, *(name for _, name in sorted(old)[:_MOST_A_LOOK])):
            await self.read_ring(namespace)

    async def read_ring(self, namespace: Namespace) -> None:
        """Read one namespace now.

        Raises:
            PeerUnreachable, PeerRefused: the cluster does not answer.
        """
        ring = await self._reader.ring(namespace)
        if ring is None:
            self._known.pop(namespace, None)
            return
        node = paths.local_policies(namespace)
        try:
            parsed = LocalPolicies.decode(node, encode({"bundles": ring})).ring(namespace, 0)
        except CorruptRecord as error:
            raise PeerRefused("MalformedAnswer", str(error)) from error
        known = self._known.get(namespace)
        is_old = known is None or self._clock.now_s() - known.read_s > _KNOWN_S
        group = None if known is None else known.group
        if is_old:
            group = await self._reader.anti_affinity_group(namespace)
        bundles = frozenset(str(bundle.range) for bundle in parsed.bundles)
        read_s = self._clock.now_s() if is_old or known is None else known.read_s
        self._known[namespace] = _KnownNamespace(ring, group, bundles, read_s)

    def nodes(self) -> Mapping[str, Projected]:
        """Local policies, as the brokers would have written them."""
        return {
            paths.local_policies(namespace): Projected(
                encode(
                    {"bundles": known.ring}
                    | ({"namespaceAntiAffinityGroup": known.group} if known.group else {})
                )
            )
            for namespace, known in self._known.items()
        }
