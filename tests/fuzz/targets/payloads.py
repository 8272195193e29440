"""Payloads of nodes that others wrote: Pulsar's, Kafka's and ours."""

from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.errors import CorruptRecord, InvalidName, NewerVersion
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.records import (
    broker_ctl,
    constraints,
    decisions,
    directives,
    load,
    ownership,
    partitions,
    policies,
    simple,
)

_OF_NODES: Final[Sequence[Callable[[Versioned], object]]] = (
    partitions.decode_state,
    partitions.decode_topic,
    partitions.decode_topic_in_any_form,
    partitions.decode_broker,
    partitions.decode_request,
    partitions.decode_failed,
    partitions.decode_topic_rules,
    partitions.decode_configuration,
    partitions.decode_throttle,
)
_OF_PAYLOADS: Final[Sequence[Callable[[str, bytes], object]]] = (
    policies.decode_grants,
    broker_ctl.ClusterName.decode,
    broker_ctl.Registration.decode,
    broker_ctl.LeaseRecord.decode,
    broker_ctl.LeadEpoch.decode,
    broker_ctl.MoveNode.decode,
    policies.ClusterRecord.decode,
    constraints.NamespaceIsolationPolicies.decode,
    constraints.FailureDomain.decode,
    constraints.DynamicValues.decode,
    decisions.decode_kept_decisions,
    directives.PauseRecord.decode,
    directives.DrainRecord.decode,
    directives.PlanRecord.decode,
    directives.PlanProgress.decode,
    ownership.BrokerRecord.decode,
    load.LocalBrokerData.decode,
    load.BundleData.decode,
    load.TimeAverageBrokerData.decode,
    broker_ctl.MigrationRecord.decode,
    ownership.NamespaceEphemeralData.decode,
    ownership.LeaderBroker.decode,
    policies.PartitionedTopic.decode,
    partitions.ControllerRecord.decode,
    policies.LocalPolicies.decode,
    policies.PoliciesRecord.decode,
    ownership.ServiceUnit.decode,
    simple.decode_report,
    simple.decode_quota,
    simple.decode_dynamic_setting,
    policies.TenantInfo.decode,
)
_PATHS: Final = ("/a/b", "/brokers/topics/t/partitions/0/state", "/namespace/p/n/0x00_0xff")
_STAT: Final = Stat(*([1] * len(Stat._fields)))
_REFUSED: Final = (CorruptRecord, InvalidName, NewerVersion)


def payloads(data: bytes) -> None:
    """The first byte is the kind of the record, the second its path."""
    if len(data) < 2:
        return
    kind, path, payload = data[0], _PATHS[data[1] % len(_PATHS)], data[2:]
    try:
        if kind < len(_OF_NODES):
            _OF_NODES[kind](Versioned(path, payload, _STAT))
        else:
            _OF_PAYLOADS[kind % len(_OF_PAYLOADS)](path, payload)
    except _REFUSED:
        pass
