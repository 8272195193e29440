"""What a broker believes of its replicas, and when a controller need not repeat a state."""

from collections.abc import Callable

import pytest

from broker_ctl.broker.replicas.instructions import KnownReplica, KnownReplicas
from broker_ctl.core.partitions.instructions import ReplicaState
from tests.support.replicas.instructions import held, named, replica_state, span_of, topic_id

T0, T1, U0 = replica_state("t-0", 1, 4), replica_state("t-1", 2, 5), replica_state("u-0", 2, 6)


def known(*states: ReplicaState) -> KnownReplicas:
    """A broker whose data plane has taken these states."""
    replicas = KnownReplicas()
    for each in states:
        replicas.put(
            each.partition, KnownReplica(each.topic_id, each.state.leader_epoch, may_lead=False)
        )
    replicas.confirm(states, 1)
    return replicas


def test_the_same_states_in_any_order_are_as_the_controller_has_them() -> None:
    replicas = known(U0, T1, T0)
    assert replicas.is_as(span_of(T0, T1, U0))
    assert replicas.is_as(span_of(T0, until="t-0"))
    assert replicas.is_as(span_of(T1, after="t-0", until="t-1"))
    assert replicas.is_as(span_of(U0, after="t-1"))
    assert KnownReplicas().is_as(span_of())


@pytest.mark.parametrize(
    "other",
    [
        replica_state("t-1", 2, 6),
        replica_state("t-1", 1, 5),
        replica_state("t-1", 2, 5, replicas=(1, 2)),
        replica_state("t-1", 2, 5, life=2),
        T1._replace(min_isr=2),
        T1._replace(adding=(3,)),
    ],
)
def test_each_part_of_a_state_counts(other: ReplicaState) -> None:
    assert not known(T0, T1).is_as(span_of(T0, other))


def test_a_replica_more_or_less_counts() -> None:
    assert not known(T0, T1).is_as(span_of(T0))
    assert not known(T0).is_as(span_of(T0, T1))
    assert not KnownReplicas([held("t-0", 4)]).is_as(span_of())


def test_the_topic_of_each_replica_counts_and_not_only_of_the_last_one_by_its_name() -> None:
    old = replica_state("t-0", 1, 4, life=2)
    assert not known(old, T1).is_as(span_of(T0, T1))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.doubt([named("t-0")]),
        lambda one: one.put(named("t-0"), KnownReplica(topic_id("t"), 4, may_lead=True)),
        lambda one: one.put(named("s-0"), KnownReplica(topic_id("s"), 4, may_lead=True)),
        lambda one: one.remove(named("t-0")),
        lambda one: one.confirm([T0._replace(min_isr=2)], 1),
    ],
)
def test_a_state_counts_until_something_happens_to_its_replica(
    change: Callable[[KnownReplicas], None],
) -> None:
    replicas = known(T0, T1)
    assert replicas.is_as(span_of(T0, T1))
    change(replicas)
    assert not replicas.is_as(span_of(T0, T1))
    replicas.remove(named("s-0"))
    replicas.put(T0.partition, KnownReplica(T0.topic_id, 4, may_lead=True))
    assert not replicas.is_as(span_of(T0, T1))
    replicas.confirm([T0], 1)
    assert replicas.is_as(span_of(T0, T1))


def test_a_replica_that_was_found_on_disk_has_no_state_yet() -> None:
    replicas = KnownReplicas([held("t-0", 4)])
    assert not replicas.is_as(span_of(T0))
    replicas.confirm([T0], 1)
    assert replicas.is_as(span_of(T0))


def test_what_the_leader_changes_by_itself_does_not_count() -> None:
    state = T0.state._replace(isr=(1,), version=7, is_recovering=True)
    assert known(T0).is_as(span_of(T0._replace(state=state)))
