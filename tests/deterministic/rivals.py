"""Others who change the tree in the very instant in which a daemon relies on it."""

from collections.abc import Sequence
from dataclasses import replace

from broker_ctl.core.names import Namespace
from broker_ctl.core.splitting.range_equally_divide import middle_of
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    Notification,
    Operation,
    SetData,
)
from broker_ctl.store.records.ours import LeadEpoch
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.policies import LocalPolicies
from tests.deterministic.daemon_process import TIMEOUT_S
from tests.deterministic.observer import ObservedEnsemble

_SEAT = paths.LOADBALANCE_SEAT
_RIVAL = LeaderBroker("rival:8080", "http://rival:8080")
_MOST_BUNDLES = 16


class _Rival:
    """The far end of a connection over which nothing is asked."""

    pulse_s = None

    def __init__(self, ensemble: ObservedEnsemble) -> None:
        self.server = ensemble.leader

    def notify(self, notifications: Sequence[Notification]) -> None: ...

    def drop(self, why: str) -> None: ...


def crown_a_rival(ensemble: ObservedEnsemble, for_s: float) -> None:
    """The leader's node is somebody else's for a while, under a new epoch."""
    tree = ensemble.tree
    epoch, node = tree.find(_SEAT.epoch_path), tree.find(_SEAT.node_path)
    if epoch is None or node is None:
        return
    session_id = ensemble.attach(_Rival(ensemble), 0, TIMEOUT_S)
    version = epoch.stat.version
    operations: list[Operation] = [
        Delete(_SEAT.node_path),
        SetData(_SEAT.epoch_path, LeadEpoch(version + 1, _RIVAL.broker_id).encode(), version),
        Create(_SEAT.node_path, _RIVAL.encode(), CreateMode.EPHEMERAL),
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
            ring = ring.split(bundle, middle_of(bundle.range))
    data = replace(policies, boundaries=ring.boundaries).encode()
    ensemble.write_as_admin([SetData(path, data, node.stat.version)])
