"""Others who change the tree in the very instant in which a daemon relies on it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker_ctl.core.model.names import Namespace
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, CreateMode, Delete, Notification, Operation, SetData
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.partitions import ControllerRecord
from broker_ctl.store.records.policies import LocalPolicies
from tests.deterministic.judges.observed_ensembles import ObservedEnsemble
from tests.deterministic.world.daemon_process import TIMEOUT_S

_RIVAL = LeaderBroker("rival:8080", "http://rival:8080")
_RIVAL_ID = 99
_MOST_BUNDLES = 16


class _Rival:
    """The far end of a connection over which nothing is asked."""

    pulse_s = None

    def __init__(self, ensemble: ObservedEnsemble) -> None:
        self.server = ensemble.leader
        self.roots: set[str] = set()

    def notify(self, notifications: Sequence[Notification]) -> None: ...

    def drop(self, why: str) -> None: ...


def insert_rival_leader(ensemble: ObservedEnsemble, for_s: float) -> None:
    """The leader's node is another broker's for a while, under a new epoch."""

    def payloads(epoch: int) -> tuple[bytes, bytes]:
        return _RIVAL.encode(), LeadEpoch(epoch, _RIVAL.broker_id).encode()

    _insert(ensemble, paths.LOADBALANCE_ELECTION, payloads, for_s)


def insert_rival_controller(ensemble: ObservedEnsemble, for_s: float) -> None:
    """The same for the controller's."""

    def payloads(epoch: int) -> tuple[bytes, bytes]:
        record = ControllerRecord(_RIVAL_ID, epoch, _RIVAL.broker_id, "http://rival:8080")
        return record.encode(0), str(epoch).encode()

    _insert(ensemble, paths.CONTROLLER_ELECTION, payloads, for_s)


def _insert(
    ensemble: ObservedEnsemble,
    election: paths.ElectionPaths,
    payloads: Callable[[int], tuple[bytes, bytes]],
    for_s: float,
) -> None:
    """``payloads`` of the election and of its epoch, under the epoch that is given."""
    epoch, node = ensemble.tree.find(election.epoch_path), ensemble.tree.find(election.node_path)
    if epoch is None or node is None:
        return
    session_id = ensemble.attach(_Rival(ensemble), 0, TIMEOUT_S)
    version = epoch.stat.version
    holder, raised = payloads(version + 1)
    operations: list[Operation] = [
        Delete(election.node_path),
        SetData(election.epoch_path, raised, version),
        Create(election.node_path, holder, CreateMode.EPHEMERAL),
    ]
    ensemble.write(session_id, operations)
    ensemble.loop.call_later(for_s, ensemble.end, session_id)


def split_free_bundles(ensemble: ObservedEnsemble, namespace: Namespace) -> None:
    """An operator cuts all bundles that nobody owns."""
    path = paths.local_policies(namespace)
    node = ensemble.tree.find(path)
    if node is None:
        return
    policies = LocalPolicies.decode(path, node.data)
    ring = policies.ring(namespace, node.stat.version)
    for bundle in ring.bundles:
        is_free = ensemble.tree.find(paths.ownership(bundle)) is None
        if is_free and bundle.range.can_split and len(ring.bundles) < _MOST_BUNDLES:
            ring = ring.split(bundle, bundle.range.middle)
    data = replace(policies, boundaries=ring.boundaries).encode()
    ensemble.write_as_admin([SetData(path, data, node.stat.version)])
