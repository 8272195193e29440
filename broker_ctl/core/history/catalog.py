"""Every kind of rows that a cluster's history has, by name."""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.core.history.audit import AuditEventRow
from broker_ctl.core.history.columns import Kind, kind
from broker_ctl.core.history.decisions import (
    DecisionRow,
    OwnershipChangeRow,
    PartitionTransitionRow,
)
from broker_ctl.core.history.leadership import (
    LeaderEpochRow,
    PolicyMemoryRow,
    PolicyVersionRow,
    SessionEventRow,
)
from broker_ctl.core.history.loads import BoundariesRow, BrokerLoadRow, BundleLoadRow, CapacityRow

BROKER_LOADS: Final = kind(
    "broker_loads",
    BrokerLoadRow,
    "one row per epoch, cycle and live broker that has reported",
    *("cluster", "epoch", "cycle", "broker"),
)
BUNDLE_LOADS: Final = kind(
    "bundle_loads",
    BundleLoadRow,
    "one row per epoch, cycle and bundle that has an owner or was looked up",
    *("cluster", "epoch", "cycle", "bundle"),
    is_packed=True,
)
BUNDLE_BOUNDARIES: Final = kind(
    "bundle_boundaries",
    BoundariesRow,
    "one row per epoch, cycle and namespace whose ring has changed since the previous cycle",
    *("cluster", "epoch", "cycle", "namespace"),
)
CAPACITIES: Final = kind(
    "capacities",
    CapacityRow,
    "one row per epoch, cycle and broker whose capacity has changed since the previous cycle",
    *("cluster", "epoch", "cycle", "broker"),
)
DECISIONS: Final = kind("decisions", DecisionRow, "one row per decision and outcome", "id")
POLICY_MEMORY: Final = kind(
    "policy_memory",
    PolicyMemoryRow,
    "one row per epoch and cycle in which load is shed",
    *("cluster", "epoch", "cycle"),
)
OWNERSHIP_CHANGES: Final = kind(
    "ownership_changes",
    OwnershipChangeRow,
    "one row per bundle that a broker acquired or released",
    "id",
)
PARTITION_TRANSITIONS: Final = kind(
    "partition_transitions",
    PartitionTransitionRow,
    "one row per partition and change of its state",
    "id",
    is_packed=True,
)
SESSION_EVENTS: Final = kind(
    "session_events", SessionEventRow, "one row per event of a daemon's session", "id"
)
LEADER_EPOCHS: Final = kind(
    "leader_epochs", LeaderEpochRow, "one row per beginning and end of a leadership term", "id"
)
POLICY_VERSIONS: Final = kind(
    "policy_versions",
    PolicyVersionRow,
    "one row per epoch and cycle in which the leader's settings have changed",
    *("cluster", "epoch", "cycle"),
)
AUDIT_EVENTS: Final = kind(
    "audit_events", AuditEventRow, "one row per change or refusal, or several refusals", "id"
)

KINDS: Final[Mapping[str, Kind[Any]]] = {
    each.name: each
    for each in (
        BROKER_LOADS,
        BUNDLE_LOADS,
        BUNDLE_BOUNDARIES,
        CAPACITIES,
        DECISIONS,
        POLICY_MEMORY,
        OWNERSHIP_CHANGES,
        PARTITION_TRANSITIONS,
        SESSION_EVENTS,
        LEADER_EPOCHS,
        POLICY_VERSIONS,
        AUDIT_EVENTS,
    )
}
