"""Sees every transaction and every act, and checks what must never be false (DESIGN 4).

It knows the servers' history and the shared storage, and nothing of what daemons think.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Ring
from broker_ctl.dataplane.bundles.bundle_table import RingTokens
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from broker_ctl.errors import CorruptRecord, InvalidName
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.store import paths
from broker_ctl.store.in_process.tree import Tree
from broker_ctl.store.interface import Create, Delete, Operation, Result, SetData, Versioned
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from tests.deterministic.world.topics import NAMESPACE
from tests.support.replicas.partition_history import PartitionHistory, Write

_ELECTION = paths.LOADBALANCE_ELECTION
_NS_PER_S = 1_000_000_000
_MOST = 8


@dataclass(slots=True)
class Reign:
    """One owner node, from its creation until it went."""

    bundle: Bundle
    broker_id: str
    session_id: int
    token: int
    begin_s: float
    end_s: float | None = None
    is_expired: bool = False


class Observer:
    """What was seen, and what was wrong with it.

    Attributes:
        forced: sessions that were ended behind their owner's back: no lease can show it.
        known: by broker, the token of the owner that it last named in answer to a lookup.
        partitions: what the store says of replicated ones.
        acted: by hash, when which broker acted under which token.
        ownerless: the nodes that were made without an owner: their data by path and czxid.
        standing: the owners of now; `standing_in` has them by namespace, too.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self.violations: list[str] = []
        self.forced: set[int] = set()
        self.partitions = PartitionHistory()
        self.ownerless: dict[str, dict[int, bytes]] = {}
        self.standing: dict[Bundle, Reign] = {}
        self.standing_in: dict[Namespace, dict[Bundle, Reign]] = {}
        self.reigns: dict[int, list[Reign]] = {}
        self.known: dict[str, dict[Bundle, int]] = {}
        self.served_s: dict[int, float] = {}
        self.acts = 0
        self.acted: dict[int, list[tuple[float, str, int]]] = {}
        self.refused = 0
        self.ownership_changes = 0
        self._highest: dict[int, tuple[int, str]] = {}
        self._tokens: dict[Namespace, RingTokens] = {}
        self._rings: dict[Namespace, Ring] = {}
        # Owners that expired, until the bundle has another owner.
        self._expired: dict[Bundle, list[Reign]] = {}
        self._epoch = 0
        self._epoch_session = 0
        self._newest_token = 0

    def forget(self, broker_id: str) -> None:
        """From here on the broker reads again whom it knew."""
        self.known.pop(broker_id, None)

    def restore(self, tree: Tree, now_s: float) -> None:
        """The servers begin again with a copy; a broker that acts by what was there cannot know it.

        Tokens stay as high as they were: what was acted under them was done.
        """
        for reign in self.standing.values():
            reign.end_s = now_s
            self.forced.add(reign.session_id)
        for state in (self.standing, self.standing_in, self.known, self._rings, self._expired):
            state.clear()
        self.partitions = PartitionHistory()
        nodes = list(tree.nodes())
        for node in nodes:
            self._note_ring(node.path, node.data, node.stat.version, now_s)
            if (bundle := paths.owned_bundle(node.path)) is not None:
                urls = NamespaceEphemeralData.decode(node.path, node.data).urls
                session_id = node.stat.ephemeral_owner
                reign = Reign(bundle, urls.broker_id, session_id, node.stat.czxid, now_s)
                self._stand(reign)
                self.forced.add(session_id)
            # Judged when it was written.
            for _ in self.partitions.see(node.stat.ephemeral_owner, [(node.path, node.data)]):
                pass
        epoch, leader = (tree.find(path) for path in (_ELECTION.epoch_path, _ELECTION.node_path))
        self._epoch = 0 if epoch is None else epoch.stat.version
        self._epoch_session = 0 if leader is None else leader.stat.ephemeral_owner

    def complain(self, said: str, now_s: float) -> None:
        if len(self.violations) < _MOST:
            self.violations.append(f"{said} (at {now_s:.3f})")

    # Acts: I1, I2.

    def record(self, act: ServeEvent) -> None:
        """As `ServeLog`: the shared storage, which refuses old tokens."""
        now_s = act.t_ns / _NS_PER_S
        for key in act.hashes:
            self.acts += 1
            self.acted.setdefault(key, []).append((now_s, act.broker, act.token))
            # Another namespace has the same hashes.
            namespace, position = self.place_of(key)
            standing = self.standing_in.get(namespace, {})
            under = [
                reign
                for reign in self.reigns.get(act.token, ())
                if reign.bundle.namespace == namespace
            ]
            if not any(r.broker_id == act.broker and position in r.bundle.range for r in under):
                said = f"I2: {act.broker} acted for {position:08x} under {act.token}, not its own"
                self.complain(said, now_s)
            is_forced = any(r.session_id in self.forced for r in under)
            # Its own: another life of the same broker is another owner.
            lives = {r.session_id for r in under if r.broker_id == act.broker}
            own = [reign for reign in standing.values() if reign.session_id in lives]
            if not is_forced and not any(position in reign.bundle.range for reign in own):
                self.complain(
                    f"I1a: {act.broker} acted for {position:08x} without owning it", now_s
                )
            self._accept(act, key, now_s)

    def place_of(self, key: int) -> tuple[Namespace, int]:
        """What an act is for: here all traffic is in one namespace, and known by its hash."""
        return NAMESPACE, key

    def _accept(self, act: ServeEvent, key: int, now_s: float) -> None:
        """By the rule that broker processes refuse with; the judge keeps an account of its own."""
        namespace, position = self.place_of(key)
        at = BundleRange(position, position + 1)
        tokens = self._tokens.setdefault(namespace, RingTokens())
        is_refused = act.token < tokens.highest(at)
        token, broker_id = self._highest.get(key, (0, act.broker))
        if is_refused != (act.token < token):
            said = "refused" if is_refused else "accepted"
            self.complain(f"I1b: token {act.token} was {said} after {token}", now_s)
        if is_refused:
            self.refused += 1
            return
        tokens.raise_to(at, act.token)
        if act.token == token and act.broker != broker_id:
            self.complain(f"I1b: {act.broker} and {broker_id} share token {token}", now_s)
        self._highest[key] = (act.token, act.broker)
        self.served_s[key] = now_s

    def close(self) -> None:
        """As `ServeLog`."""

    # Transactions: I2, I3, I5, I7, I8.

    def see(
        self,
        operations: Sequence[Operation],
        results: Sequence[Result],
        session_id: int,
        ensemble: MemoryEnsemble,
        *,
        is_expiry: bool,
    ) -> None:
        """A transaction was committed."""
        now_s, tree = ensemble.loop.time(), ensemble.tree
        self.note_made(operations, results)
        # Also where the same transaction creates it again.
        for path in [op.path for op in operations if isinstance(op, Delete)]:
            self._end(path, now_s, is_expiry=is_expiry)
            self._forget_ring(path)
            if path == _ELECTION.epoch_path:
                # The next one is made as 0; who holds the last one is still the only leader.
                self._epoch = 0
        changed: dict[Namespace, None] = {}
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, Create) and isinstance(result, Versioned):
                self._created(result, session_id, now_s, changed)
                self._note_ring(result.path, result.data, result.stat.version, now_s)
                self._judge_move(result.path, session_id, now_s)
            elif isinstance(operation, SetData):
                node = tree.find(operation.path)
                version = 0 if node is None else node.stat.version
                self._note_ring(operation.path, operation.data, version, now_s, changed)
                self._judge_epoch(operation.path, version, tree.find(_ELECTION.node_path), now_s)
                self._judge_move(operation.path, session_id, now_s)
        for namespace in changed:
            for said in self._partition(namespace):
                self.complain(said, now_s)
        for said in self.partitions.see(session_id, list(_written(operations, results))):
            self.complain(said, now_s)

    def note_made(self, operations: Sequence[Operation], results: Sequence[Result]) -> None:
        """Of either store."""
        for operation, node in zip(operations, results, strict=True):
            if isinstance(node, Versioned) and not node.stat.is_ephemeral:
                assert isinstance(operation, Create)
                self.ownerless.setdefault(node.path, {})[node.stat.czxid] = node.data

    def _created(
        self, node: Versioned, session_id: int, now_s: float, changed: dict[Namespace, None]
    ) -> None:
        bundle = paths.owned_bundle(node.path)
        if bundle is None:
            return
        changed[bundle.namespace] = None
        if not node.stat.is_ephemeral:
            self.complain(f"I8: the owner node of {bundle} is persistent", now_s)
        broker_id = NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
        reign = Reign(bundle, broker_id, session_id, node.stat.czxid, now_s)
        if reign.token < self._newest_token:
            self.complain(f"I2: token {reign.token} of {bundle} is not the highest", now_s)
        self._newest_token = reign.token
        self._judge_takeover(reign, now_s)
        self._stand(reign)

    def _stand(self, reign: Reign) -> None:
        bundle = reign.bundle
        self.standing[bundle] = reign
        self.standing_in.setdefault(bundle.namespace, {})[bundle] = reign
        self.reigns.setdefault(reign.token, []).append(reign)

    def _end(self, path: str, now_s: float, *, is_expiry: bool) -> None:
        bundle = paths.owned_bundle(path)
        reign = None if bundle is None else self.standing.pop(bundle, None)
        if reign is not None:
            del self.standing_in[reign.bundle.namespace][reign.bundle]
            reign.end_s, reign.is_expired = now_s, is_expiry
            if is_expiry:
                self._expired.setdefault(reign.bundle, []).append(reign)

    def _judge_takeover(self, reign: Reign, now_s: float) -> None:
        """I7: who had named the old owner waits for the grace, or for that broker."""
        # The next owner comes after this one.
        for before in self._expired.pop(reign.bundle, ()):
            is_over = now_s - (before.end_s or 0.0) >= self._grace_s
            if is_over or before.broker_id == reign.broker_id:
                continue
            self.ownership_changes += 1
            if self.known.get(reign.broker_id, {}).get(reign.bundle) == before.token:
                self.complain(
                    f"I7: {reign.broker_id} took {reign.bundle} within the grace, although it knew"
                    f" that {before.broker_id} had it",
                    now_s,
                )

    def _note_ring(
        self,
        path: str,
        data: bytes,
        version: int,
        now_s: float,
        changed: dict[Namespace, None] | None = None,
    ) -> None:
        namespace = paths.local_policies_namespace(path)
        if namespace is None:
            return
        if changed is not None:
            changed[namespace] = None
        try:
            self._rings[namespace] = LocalPolicies.decode(path, data).ring(namespace, version)
        except (CorruptRecord, InvalidName) as error:
            self.complain(f"I5: no ring: {error}", now_s)

    def _forget_ring(self, path: str) -> None:
        """The namespace is deleted: it has no bundles that could be owned."""
        if (namespace := paths.local_policies_namespace(path)) is not None:
            self._rings.pop(namespace, None)

    def _partition(self, namespace: Namespace) -> Iterator[str]:
        """I5: owners lie in the ring, so that no two of them overlap."""
        ring = self._rings.get(namespace)
        for reign in self.standing_in.get(namespace, {}).values():
            if ring is None or reign.bundle not in ring:
                yield f"I5: {reign.bundle} has an owner and is not in the ring"

    def _judge_move(self, path: str, session_id: int, now_s: float) -> None:
        """I3: only who has the newest epoch writes a move; one without a successor has it."""
        if paths.name_below(paths.MOVES, path) is not None and session_id != self._epoch_session:
            self.complain("I3: a move was ordered by a leader that is deposed", now_s)

    def _judge_epoch(self, path: str, version: int, leader: Versioned | None, now_s: float) -> None:
        if path != _ELECTION.epoch_path:
            return
        if version <= self._epoch:
            self.complain(f"I3: epoch {version} after {self._epoch}", now_s)
        if leader is None:
            self.complain(f"I3: epoch {version} came without a holder", now_s)
            return
        self._epoch, self._epoch_session = version, leader.stat.ephemeral_owner


def _written(operations: Sequence[Operation], results: Sequence[Result]) -> Iterator[Write]:
    """What stands where, after each operation that is not a check."""
    for operation, result in zip(operations, results, strict=True):
        if isinstance(operation, Create) and isinstance(result, Versioned):
            yield result.path, result.data
        elif isinstance(operation, SetData):
            yield operation.path, operation.data
        elif isinstance(operation, Delete):
            yield operation.path, None
