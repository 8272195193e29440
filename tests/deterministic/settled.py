"""What must hold once nothing is wrong any more, and what must hold of every answered write."""

from collections.abc import Iterator

from broker_ctl.core.ownership import BundleState
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    NotEmpty,
    SessionError,
)
from broker_ctl.store import partition_paths, paths
from broker_ctl.store.interface import Check, Create, CreateMode, Delete, Operation
from broker_ctl.store.memory.link import Request
from broker_ctl.store.records.partitions import decode_topic
from tests.deterministic.cluster import Cluster
from tests.deterministic.daemon_process import DaemonProcess
from tests.deterministic.topics import NAMESPACE, topics

_DEFINITE = (BadVersion, NodeExists, NotEmpty)
_FRESH_S = 1.0


class Settled:
    """Daemons, stores and data planes against the tree."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def judge(self) -> Iterator[str]:
        """What is not as it must be."""
        observer, now_s = self._cluster.observer, self._cluster.turns.now_s
        for topic in topics():
            if now_s - observer.served_s.get(topic.ring_hash, 0.0) > _FRESH_S:
                yield f"{topic} is not served"
        for daemon in self._cluster.daemons:
            yield from (f"{daemon.broker_id}: {said}" for said in self._judge(daemon))
        yield from self._judge_partitions()

    def _judge_partitions(self) -> Iterator[str]:
        """Each replicated partition has its replicas, all in sync, and one of them leads."""
        tree = self._cluster.ensemble.tree
        for name in tree.children(partition_paths.TOPICS):
            node = tree.find(partition_paths.topic(name))
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
            if tree.children(partition_paths.reassigned_topic(name)):
                yield f"requests to reassign partitions of {name} stand"

    def _judge(self, daemon: DaemonProcess) -> Iterator[str]:
        if not daemon.is_running or daemon.parts is None or daemon.assembly is None:
            yield f"does not run: {daemon.exits[-1:]}"
            return
        readiness = daemon.parts.readiness()
        if not readiness.is_ready:
            yield f"is not ready: {readiness.reason}"
            return
        yield from self._judge_holdings(daemon)
        yield from self._judge_caches(daemon)

    def _judge_holdings(self, daemon: DaemonProcess) -> Iterator[str]:
        assert daemon.assembly is not None
        held = daemon.assembly.managers.ownership.owned().values()
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
        managers, coordination = daemon.assembly.managers, daemon.assembly.coordination
        for bundle, reign in self._cluster.observer.standing.items():
            known = managers.owners.cache.peek(paths.ownership(bundle))
            if known is not None and known.token != reign.token:
                yield f"knows another owner of {bundle}"
        ring = managers.namespaces.cache.peek(paths.local_policies(NAMESPACE))
        node = tree.find(paths.local_policies(NAMESPACE))
        if ring is not None and node is not None and ring.version != node.stat.version:
            yield "knows an older ring"
        if sorted(coordination.registry.peers) != tree.children(paths.REGISTRATIONS):
            yield f"knows the brokers {sorted(coordination.registry.peers)}"
        if len(coordination.moves.all) != len(tree.children(paths.MOVES)):
            yield f"knows {len(coordination.moves.all)} moves"
        if len(daemon.assembly.foundation.deletions):
            yield "has deletions to do"


def unanswered(cluster: Cluster) -> Iterator[str]:
    """I4: what was answered is what was done, and once; looks at each write when it is settled."""
    for daemon in cluster.daemons:
        requests = daemon.wire.requests
        for request in [request for request in requests if request.future.done()]:
            del requests[request]
            if said := _judge_answer(request):
                yield f"I4: {daemon.broker_id} {request.what}: {said}"


def _judge_answer(request: Request) -> str | None:
    changes = [op for op in request.operations if not isinstance(op, Check)]
    if request.executions > 1:
        return f"was applied {request.executions} times"
    if request.future.cancelled() or not changes:
        return None
    error = request.future.exception()
    if isinstance(error, Ambiguous | SessionError) or (error is None and _is_doubtful(request)):
        return None
    if isinstance(error, MultiFailed):
        error = error.cause
    # What it was done to may have gone since: then NoNode is true too.
    if isinstance(error, _DEFINITE) and request.executions:
        return f"was applied, and the answer is {error!r}"
    is_moot = all(_is_indistinct(op) for op in changes)
    if error is None and not request.executions and not is_moot:
        return "was not applied, and the answer is yes"
    return None


def _is_doubtful(request: Request) -> bool:
    """Whether the answer says of one of several changes that nobody can tell."""
    answer = request.future.result()
    return isinstance(answer, tuple) and any(isinstance(part, Ambiguous) for part in answer)


def _is_indistinct(operation: Operation) -> bool:
    """Whether it is as good as done when somebody else did it: a node that is to be gone, or a
    container that is to be there. Other creates carry an id of their writer.
    """
    is_container = isinstance(operation, Create) and operation.mode is CreateMode.CONTAINER
    return isinstance(operation, Delete) or is_container
