"""Plays the committed transactions again, and checks after each what must never be false.

Sees I2 (tokens grow), I3 (epochs grow, only the owner of the leader's node leads), I5 (one owner of
a hash, the bundles are the ring), I8 (no owner node is persistent, no ephemeral outlives its
process), I9 (leaders and ISRs of replicated partitions), and that nobody stands in two sessions at
once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from tests.chaos.judges.history import Changed, Closed, Created, Deleted, Transaction
from tests.support.replicas.partition_history import PartitionHistory, Write

_ELECTION: Final = paths.LOADBALANCE_ELECTION


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was created, and its data now."""

    czxid: int
    session: int
    data: bytes
    is_ephemeral: bool


@dataclass(slots=True)
class Reign:
    """One owner node: whose, and from when to when.

    ``had_grace``: it went with a session that its owner was registered in.
    """

    bundle: Bundle
    broker_id: str
    session: int
    token: int
    begin_ms: int
    end_ms: int | None = None
    had_grace: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """A session with a registration that has ended."""

    broker_id: str
    session: int
    time_ms: int


class Replay:
    """The tree below one chroot, after each transaction."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._nodes: dict[str, Node] = {}
        self._owners: dict[Bundle, Reign] = {}
        self._rings: dict[str, Ring] = {}
        self._epoch = 0
        self.reigns: list[Reign] = []
        self.ends: list[End] = []
        # When each session wrote for the first time.
        self.begins: dict[int, int] = {}
        self.partitions = PartitionHistory()
        self.violations: list[str] = []

    def run(self, history: Iterable[Transaction]) -> None:
        for one in history:
            self.begins.setdefault(one.session, one.time_ms)
            writes = list(self._writes(one))
            self._apply(one)
            for said in (*self._judge(one), *self.partitions.see(one.session, writes)):
                self.violations.append(f"{said} (zxid 0x{one.zxid:x})")

    @property
    def ephemerals(self) -> list[str]:
        """Those that stand at the end."""
        return [path for path, node in self._nodes.items() if node.is_ephemeral]

    def _writes(self, one: Transaction) -> Iterator[Write]:
        for change in one.changes:
            match change:
                case Closed():
                    yield from ((path, None) for path in self._ephemerals_of(one.session))
                case Created(path, data) | Changed(path, data):
                    yield self._inside(path), data
                case Deleted(path):
                    yield self._inside(path), None

    def _ephemerals_of(self, session: int) -> list[str]:
        return [
            path
            for path, node in self._nodes.items()
            if node.is_ephemeral and node.session == session
        ]

    def _apply(self, one: Transaction) -> None:
        for change in one.changes:
            match change:
                case Closed():
                    self._close(one)
                case Created(path, data, is_ephemeral):
                    node = Node(one.zxid, one.session, data, is_ephemeral)
                    self._create(self._inside(path), node, one.time_ms)
                case Changed(path, data):
                    self._change(self._inside(path), data)
                case Deleted(path):
                    self._delete(self._inside(path), one.time_ms, had_grace=False)

    def _inside(self, path: str) -> str:
        """Without the chroot; empty for what lies elsewhere."""
        return path.removeprefix(self._chroot) if path.startswith(f"{self._chroot}/") else ""

    def _close(self, one: Transaction) -> None:
        left = self._ephemerals_of(one.session)
        registered = [paths.name_below(paths.REGISTRATIONS, path) for path in left]
        self.ends += [End(each, one.session, one.time_ms) for each in registered if each]
        for path in left:
            self._delete(path, one.time_ms, had_grace=any(registered))

    def _create(self, path: str, node: Node, time_ms: int) -> None:
        if not path:
            return
        self._nodes[path] = node
        self._note_ring(path, node.data)
        bundle = paths.owned_bundle(path)
        if bundle is not None:
            owner = NamespaceEphemeralData.decode(path, node.data).urls.broker_id
            reign = Reign(bundle, owner, node.session, node.czxid, time_ms)
            self._owners[bundle] = reign
            self.reigns.append(reign)

    def _change(self, path: str, data: bytes) -> None:
        if path in self._nodes:
            old = self._nodes[path]
            self._nodes[path] = Node(old.czxid, old.session, data, old.is_ephemeral)
            self._note_ring(path, data)

    def _delete(self, path: str, time_ms: int, *, had_grace: bool) -> None:
        self._nodes.pop(path, None)
        bundle = paths.owned_bundle(path)
        if bundle is not None and bundle in self._owners:
            reign = self._owners.pop(bundle)
            reign.end_ms, reign.had_grace = time_ms, had_grace

    def _note_ring(self, path: str, data: bytes) -> None:
        namespace = paths.local_policies_namespace(path)
        if namespace is not None:
            try:
                policies = LocalPolicies.decode(path, data)
                self._rings[str(namespace)] = policies.ring(namespace, 0)
            except CorruptRecord as error:
                self.violations.append(f"I5: no ring: {error}")

    # After each transaction.

    def _judge(self, one: Transaction) -> Iterator[str]:
        for change in one.changes:
            if isinstance(change, Created):
                yield from self._judge_created(self._inside(change.path), one)
            # It is created as 0, for the first holder to raise.
            if isinstance(change, Changed):
                yield from self._judge_epoch(self._inside(change.path), change.data)
        if any(not isinstance(change, Closed | Deleted) for change in one.changes):
            yield from self._judge_rings(one)

    def _judge_created(self, path: str, one: Transaction) -> Iterator[str]:
        node = self._nodes.get(path)
        if node is None:
            return
        bundle = paths.owned_bundle(path)
        if bundle is not None:
            yield from self._judge_owner(self._owners[bundle], node)
        if paths.name_below(paths.MOVES, path) is not None:
            leader_node = self._nodes.get(_ELECTION.node_path)
            if leader_node is None or leader_node.session != one.session:
                yield f"I3: a move was ordered by session 0x{one.session:x}, which does not lead"

    def _judge_owner(self, reign: Reign, node: Node) -> Iterator[str]:
        if not node.is_ephemeral:
            yield f"I8: the owner node of {reign.bundle} is persistent"
        for other in self._owners.values():
            if other is not reign and other.bundle.overlaps(reign.bundle):
                yield f"I5: {reign.bundle} and {other.bundle} have owners at once"
        registration = self._nodes.get(paths.registration(reign.broker_id))
        if registration is not None and registration.session != reign.session:
            yield f"{reign.broker_id} took {reign.bundle} in a session it is not registered in"

    def _judge_epoch(self, path: str, data: bytes) -> Iterator[str]:
        if path == _ELECTION.epoch_path:
            epoch = LeadEpoch.decode(path, data).epoch
            if epoch <= self._epoch:
                yield f"I3: epoch {epoch} after {self._epoch}"
            self._epoch = epoch
            if _ELECTION.node_path not in self._nodes:
                yield f"I3: epoch {epoch} came without a holder"

    def _judge_rings(self, one: Transaction) -> Iterator[str]:
        """What this transaction created must lie in the ring that holds now."""
        for bundle, reign in self._owners.items():
            ring = self._rings.get(str(bundle.namespace))
            if reign.token == one.zxid and (ring is None or bundle not in ring):
                yield f"I5: {bundle} has an owner and is not in the ring"


def late_ends(
    replay: Replay, deaths: Sequence[tuple[str, int, int]], limit_ms: int
) -> Iterator[str]:
    """I8: what a killed process left must go with its session.

    ``deaths`` are broker ids, and the wall clock in ms when they were killed, and when a server
    can have heard from them last: from then on the servers count the session timeout.
    """
    for broker_id, at_ms, heard_ms in deaths:
        ends = [end.time_ms for end in replay.ends if end.broker_id == broker_id]
        after = [time_ms for time_ms in ends if time_ms >= at_ms]
        if after and min(after) - heard_ms > limit_ms:
            stood = f"{min(after) - at_ms} ms, {heard_ms - at_ms} of them heard of"
            yield f"I8: {broker_id} was killed, and stood for {stood}"
