"""A partition's leader, or its lack of one, is explained by what elections look at."""

import pytest

from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.explaining import reasons
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)

P0 = TopicPartition("t", 0)


def context_with(
    *live: int,
    leader: int | None,
    isr: tuple[int, ...] = (1, 2, 3),
    assignment: Assignment | None = None,
    is_recovering: bool = False,
) -> Context:
    """The partition has the replicas 1, 2, 3 unless said otherwise; leader None: no state."""
    context = Context(1, TopicRules(is_unclean_allowed=False, min_isr=1))
    context.put_brokers({each: LiveBroker(each, 1, "h", 1) for each in live})
    context.put_topic("t", TopicAssignment("id", {0: assignment or Assignment((1, 2, 3))}))
    if leader is not None:
        context.put_state(P0, LeaderAndIsr(leader, 0, isr, 1, is_recovering))
    return context


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (context_with(1, 2, leader=1), "broker 1 leads: it is the preferred replica"),
        (context_with(2, 3, leader=2), "broker 2 leads: the preferred replica 1 is dead"),
        (
            context_with(1, 2, leader=2, isr=(2, 3)),
            "broker 2 leads: the preferred replica 1 is not in sync",
        ),
        (
            context_with(1, 2, leader=2),
            (
                "broker 2 leads: the preferred replica 1 could not lead earlier; it is"
                " live and in sync, and leads after the next preferred election"
            ),
        ),
        (
            context_with(3, leader=NO_LEADER, isr=(1, 2)),
            (
                "it has no leader: of the replicas in sync, 1 is dead, 2 is dead; it waits for"
                " one of them, since unclean.leader.election.enable is false"
            ),
        ),
        (
            context_with(2, leader=1),
            "it has no live leader: the election has not been written yet",
        ),
        (
            context_with(4, leader=None),
            "it never had a leader: none of its replicas 1, 2, 3 lives",
        ),
        (
            context_with(1, leader=None),
            "it never had a leader: its first state has not been written yet",
        ),
    ],
)
def test_the_leader_is_explained(context: Context, reason: str) -> None:
    assert list(reasons(context, P0)) == [reason]


@pytest.mark.parametrize("status", ["failed", "silent", "stopping"])
def test_a_live_broker_that_may_not_lead_is_named_with_its_status(status: str) -> None:
    context = context_with(1, 2, leader=2)
    if status == "failed":
        context.failures.put(1, frozenset({P0}))
    elif status == "silent":
        context.put_silent({1})
    else:
        context.leaving.add(1)
    assert list(reasons(context, P0)) == [f"broker 2 leads: the preferred replica 1 is {status}"]


def test_where_an_unclean_election_is_allowed_only_a_live_replica_is_missing() -> None:
    context = context_with(leader=NO_LEADER, isr=(1,))
    context.put_rules("t", TopicRules(is_unclean_allowed=True))
    assert list(reasons(context, P0)) == ["it has no leader: 1 is dead, and no other replica lives"]


def test_what_else_is_out_of_the_ordinary_follows() -> None:
    moving = Assignment((2, 3, 1), adding=(2, 3), removing=(1,))
    context = context_with(1, 2, 3, leader=1, isr=(1, 2), assignment=moving, is_recovering=True)
    context.put_rules("t", TopicRules(is_unclean_allowed=True, min_isr=3))
    assert list(reasons(context, P0))[1:] == [
        "broker 1 was not in sync when elected: records may have been lost",
        "2 in sync, min.insync.replicas is 3: no record with acks=all is committed",
        "it moves to the replicas 2, 3; not yet in sync: 3",
    ]


def test_a_topic_that_is_being_deleted_has_no_leader() -> None:
    context = context_with(1, leader=None)
    context.deleting.add("t")
    assert list(reasons(context, P0)) == ["its topic is being deleted"]
