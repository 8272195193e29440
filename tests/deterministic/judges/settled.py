"""What must hold once nothing is wrong any more."""

from collections.abc import Iterator

from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import decode_topic
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.topics import NAMESPACE, topics

_FRESH_S = 1.0


class Settled:
    """Daemons, stores and data planes against the tree."""

    def __init__(self, cluster: Cluster, *, are_partitions_judged: bool = True) -> None:
        self._cluster = cluster
        self._are_partitions_judged = are_partitions_judged

    def judge(self) -> Iterator[str]:
        """What is not as it must be."""
        observer, now_s = self._cluster.observer, self._cluster.turns.now_s
        for topic in topics():
            if now_s - observer.served_s.get(topic.ring_hash, 0.0) > _FRESH_S:
                yield f"{topic} is not served"
        for daemon in self._cluster.daemons:
            yield from (f"{daemon.broker_id}: {said}" for said in self._judge(daemon))
        if self._are_partitions_judged:
            yield from self._judge_partitions()

    def _judge_partitions(self) -> Iterator[str]:
        """Each replicated partition has its replicas, all in sync, and one of them leads."""
        tree = self._cluster.ensemble.tree
        for name in tree.children(paths.TOPICS):
            node = tree.find(paths.topic(name))
            assert node is not None
            for number, assigned in decode_topic(node).partitions.items():
                partition = TopicPartition(name, number)
                state = self._cluster.observer.partitions.states.get(partition)
                if state is None:
                    yield f"{partition} has no state"
                elif assigned.is_reassigning:
                    yield f"{partition} is being reassigned: {assigned}, {state}"
                elif state.leader not in state.isr or {*state.isr} != {*assigned.replicas}:
                    yield f"{partition} is not whole: {assigned.replicas}, {state}"
            if tree.children(paths.reassigned_topic(name)):
                yield f"requests to reassign partitions of {name} stand"

    def _judge(self, daemon: DaemonProcess) -> Iterator[str]:
        if not daemon.is_running or daemon.dependencies is None or daemon.assembly is None:
            yield f"does not run: {daemon.exits[-1:]}"
            return
        readiness = daemon.dependencies.readiness()
        if not readiness.is_ready:
            yield f"is not ready: {readiness.reason}"
            return
        yield from self._judge_holdings(daemon)
        yield from self._judge_caches(daemon)

    def _judge_holdings(self, daemon: DaemonProcess) -> Iterator[str]:
        assert daemon.assembly is not None
        held = daemon.assembly.services.ownership.owned().values()
        owned = {one.bundle: one.token for one in held if one.state is BundleState.OWNED}
        nodes = {
            bundle: reign.token
            for bundle, reign in self._cluster.observer.standing.items()
            if reign.broker_id == daemon.broker_id
        }
        loaded = {entry.bundle: entry.token for entry in daemon.process.serving._table}
        if len(owned) != len(held):
            yield f"is busy with {[(str(one.bundle), one.state) for one in held]}"
        elif owned != nodes:
            yield f"holds {len(owned)} bundles, and {len(nodes)} nodes are its own"
        elif owned != loaded:
            yield f"holds {len(owned)} bundles, and {len(loaded)} are loaded"

    def _judge_caches(self, daemon: DaemonProcess) -> Iterator[str]:
        assert daemon.assembly is not None
        tree = self._cluster.ensemble.tree
        services, coordination = daemon.assembly.services, daemon.assembly.coordination
        for bundle, reign in self._cluster.observer.standing.items():
            known = services.owners.cache.peek(paths.ownership(bundle))
            if known is not None and known.token != reign.token:
                yield f"knows another owner of {bundle}"
        ring = services.namespaces.cache.peek(paths.local_policies(NAMESPACE))
        node = tree.find(paths.local_policies(NAMESPACE))
        if ring is not None and node is not None and ring.version != node.stat.version:
            yield "knows an older ring"
        if sorted(coordination.registry.peers) != tree.children(paths.REGISTRATIONS):
            yield f"knows the brokers {sorted(coordination.registry.peers)}"
        if len(coordination.moves.all) != len(tree.children(paths.MOVES)):
            yield f"knows {len(coordination.moves.all)} moves"
        if len(daemon.assembly.foundation.deletions):
            yield "has deletions to do"
