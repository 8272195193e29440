"""The controller's state, as plain JSON values."""

from collections.abc import Iterable, Mapping
from typing import Any

from broker_ctl.core.partitions import reassigning
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Election, RefusedElection
from broker_ctl.core.partitions.explaining import reasons, replica_status
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    LeaderAndIsr,
    LiveBroker,
    TopicPartition,
    Transition,
)
from broker_ctl.errors import StoreError


def overview(context: Context, broker_id: int) -> dict[str, Any]:
    """The controller, its brokers, and counts."""
    return {
        "broker": broker_id,
        "epoch": context.epoch,
        "topics": len(context.topics),
        "partitions": len(context.assignments),
        "offline": len(context.offline),
        "under_replicated": len(context.under_replicated),
        "under_min_isr": len(context.under_min_isr),
        "rack_violations": len(context.racks.violated),
        "not_preferred": context.imbalanced,
        "reassigning": len(context.reassigning),
        "throttle_bytes_per_s": context.throttle,
        "deleting": len(context.deleting),
        "brokers": sorted(
            [
                *(_broker(context, broker) for broker in context.brokers.values()),
                *(_dead_broker(context, broker_id) for broker_id in context.dead_brokers()),
            ],
            key=lambda row: int(row["broker"]),
        ),
    }


def _broker(context: Context, broker: LiveBroker) -> dict[str, Any]:
    broker_id = broker.broker_id
    state = "live"
    if broker_id in context.leaving:
        state = "stopping"
    elif broker_id in context.silent:
        state = "silent"
    return {
        "broker": broker_id,
        "address": broker.address,
        "daemon": broker.daemon,
        "epoch": broker.epoch,
        "state": state,
        "rack": broker.rack or None,
        **_held(context, broker_id),
    }


def _dead_broker(context: Context, broker_id: int) -> dict[str, Any]:
    """A broker that is not registered: its addresses are unknown."""
    nothing = dict.fromkeys(("address", "daemon", "epoch", "rack"))
    return {"broker": broker_id, **nothing, "state": "dead", **_held(context, broker_id)}


def _held(context: Context, broker_id: int) -> dict[str, int]:
    led, held = context.led_by(broker_id), context.replicas_on(broker_id)
    return {"leaders": len(led), "replicas": len(held)}


def topic_row(context: Context, name: str) -> dict[str, Any]:
    """A topic with counts of its partitions."""
    topic = context.topics[name]
    partitions = {TopicPartition(name, number) for number in topic.partitions}
    return {
        "topic": name,
        "topic_id": topic.topic_id,
        "partitions": len(partitions),
        "offline": len(partitions & context.offline.keys()),
        "under_replicated": len(partitions & context.under_replicated),
        "under_min_isr": len(partitions & context.under_min_isr),
        "rack_violations": len(partitions & context.racks.violated),
        "reassigning": len(partitions & context.reassigning),
        "is_deleting": name in context.deleting,
    }


def ending_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A topic that is being deleted."""
    well = dict.fromkeys(("under_replicated", "under_min_isr", "rack_violations", "reassigning"), 0)
    counts = {"offline": row["partitions"], **well}
    named = {name: row[name] for name in ("topic", "topic_id", "partitions")}
    return {**named, **counts, "is_deleting": True}


def description(context: Context, name: str) -> dict[str, Any]:
    """A topic, partition by partition."""
    topic, rules = context.topics[name], context.rules_of(name)
    return {
        "topic": name,
        "topic_id": topic.topic_id,
        "min_isr": rules.min_isr,
        "unclean": rules.is_unclean_allowed,
        "throttle_bytes_per_s": context.throttle if _is_reassigning(context, name) else None,
        "is_deleting": name in context.deleting,
        "partitions": [
            _partition(context, TopicPartition(name, number)) for number in sorted(topic.partitions)
        ],
    }


def _is_reassigning(context: Context, name: str) -> bool:
    return any(partition.topic == name for partition in context.reassigning)


def _partition(context: Context, partition: TopicPartition) -> dict[str, Any]:
    assignment, state = context.assignments[partition], context.states.get(partition)
    brokers = map(context.brokers.get, assignment.replicas)
    racks = [(broker.rack or None) if broker else None for broker in brokers]
    led: dict[str, Any] = {
        "leader": NO_LEADER,
        "isr": [],
        "leader_epoch": -1,
        "controller_epoch": -1,
        "is_recovering": False,
    }
    if state is not None:
        led = {
            "leader": state.leader,
            "isr": list(state.isr),
            "leader_epoch": state.leader_epoch,
            "controller_epoch": state.controller_epoch,
            "is_recovering": state.is_recovering,
        }
    return {
        **key_row(partition),
        "replicas": list(assignment.replicas),
        "racks": racks,
        "is_rack_violation": partition in context.racks.violated,
        **led,
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
    }


def explanation(context: Context, partition: TopicPartition) -> dict[str, Any]:
    """Why a partition has its leader, and whether each of its replicas could lead."""
    assignment, rules = context.assignments[partition], context.rules_of(partition.topic)
    row = _partition(context, partition)
    return {
        **key_row(partition),
        "reasons": list(reasons(context, partition)),
        **{name: row[name] for name in ("leader", "leader_epoch", "controller_epoch", "isr")},
        "min_isr": rules.min_isr,
        "unclean": rules.is_unclean_allowed,
        "replicas": [
            {
                "broker": broker_id,
                "status": replica_status(context, partition, broker_id).value,
                "is_in_sync": broker_id in row["isr"],
                "is_leader": broker_id == row["leader"],
                "is_preferred": place == 0,
                "is_adding": broker_id in assignment.adding,
                "is_removing": broker_id in assignment.removing,
            }
            for place, broker_id in enumerate(assignment.replicas)
        ],
    }


def reassignment_row(context: Context, partition: TopicPartition) -> dict[str, Any]:
    """A partition that is being reassigned."""
    assignment, state = context.assignments[partition], context.states.get(partition)
    isr = () if state is None else state.isr
    missing = assignment.target if state is None else reassigning.missing(assignment, state)
    return {
        **key_row(partition),
        "replicas": list(assignment.target),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
        "isr": list(isr),
        "missing": list(missing),
        "throttle_bytes_per_s": context.throttle,
    }


def throttle_row(context: Context, rate: int | None) -> dict[str, Any]:
    """The throttle before and after a change, and the partitions that it applies to."""
    before, after = ({"throttle_bytes_per_s": each} for each in (context.throttle, rate))
    return {"before": before, "after": after, "reassigning": len(context.reassigning)}


def transition_row(epoch: int, at_ms: int, transition: Transition) -> dict[str, Any]:
    """A transition of a partition, with its time and reason."""
    return {
        "at_ms": at_ms,
        "controller_epoch": epoch,
        **key_row(transition.partition),
        "before": transition.former,
        "leader": transition.leader,
        "leader_epoch": transition.leader_epoch,
        "isr": list(transition.isr),
        "reason": transition.reason,
    }


def key_row(partition: TopicPartition) -> dict[str, Any]:
    """The name of a partition."""
    return {"topic": partition.topic, "partition": partition.partition}


def created_rows(topic: str, replicas: Mapping[int, tuple[int, ...]]) -> dict[str, Any]:
    """New partitions of a topic."""
    return {
        "topic": topic,
        "partitions": [
            {**key_row(TopicPartition(topic, number)), "replicas": list(brokers)}
            for number, brokers in sorted(replicas.items())
        ],
    }


def started(
    context: Context, targets: Mapping[TopicPartition, tuple[int, ...]], throttle: int | None
) -> dict[str, Any]:
    """Reassignments to start, and the throttle if one is to be set.

    A controller of an earlier release leaves the throttle out: by that its absence is noticed.
    """
    limit = {} if throttle is None else {"throttle_bytes_per_s": throttle}
    return {"partitions": moved_rows(context, sorted(targets.items())), **limit}


def moved_rows(
    context: Context, targets: Iterable[tuple[TopicPartition, tuple[int, ...]]]
) -> list[dict[str, Any]]:
    """Current and target replicas; for a partition in reassignment, its current target."""
    return [
        {
            **key_row(partition),
            "replicas": list(target),
            "before": list(context.assignments[partition].target),
        }
        for partition, target in targets
    ]


def election_row(
    partition: TopicPartition, before: int, outcome: Election | StoreError
) -> dict[str, Any]:
    """Leaders before and after, and why no other was elected."""
    leader, reason = before, ""
    if isinstance(outcome, LeaderAndIsr):
        leader = outcome.leader
    elif isinstance(outcome, RefusedElection):
        reason = outcome.reason.value
    else:
        reason = str(outcome)
    return {**key_row(partition), "before": before, "leader": leader, "reason": reason}
