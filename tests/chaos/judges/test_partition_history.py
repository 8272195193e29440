"""Each thing that must never happen to a replicated partition, made to happen in the store."""

from collections.abc import Sequence

import pytest

from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import (
    ControllerRecord,
    encode_broker,
    encode_state,
    encode_topic,
    encode_topic_rules,
)
from tests.support.replicas.partition_history import PartitionHistory, Write

ELECTED = paths.CONTROLLER_ELECTION
PARTITION = TopicPartition("t", 0)
BEGIN = LeaderAndIsr(1, 0, (1, 2, 3), 1)

# Brokers 1, 2 and 3 are registered in sessions 11, 12 and 13; session 11 controls.
Said = tuple[int, Sequence[Write]]


def elected(session: int, epoch: int) -> Said:
    record = ControllerRecord(session - 10, epoch, "d:8080", "http://d:8080")
    writes = [(ELECTED.node_path, record.encode(0)), (ELECTED.epoch_path, str(epoch).encode())]
    return session, writes


def registered(broker: int, session: int) -> Said:
    live = LiveBroker(broker, 0, "h", 9000 + broker)
    return session, [(paths.broker(broker), encode_broker(live, 0))]


def topic(session: int, *replicas: int) -> Said:
    assignment = TopicAssignment("0" * 32, {0: Assignment(replicas)})
    return session, [(paths.topic("t"), encode_topic(assignment))]


def state(session: int, written: LeaderAndIsr) -> Said:
    return session, [(paths.leader_and_isr(PARTITION), encode_state(written))]


def unclean() -> Said:
    rules = encode_topic_rules(TopicRules(is_unclean_allowed=True), {})
    return 9, [(paths.topic_configuration("t"), rules)]


START: Sequence[Said] = (
    (11, [(ELECTED.epoch_path, b"0")]),
    elected(11, 1),
    registered(1, 11),
    registered(2, 12),
    registered(3, 13),
    topic(9, 1, 2, 3),
    state(11, BEGIN),
)


def seen(*said: Said) -> tuple[PartitionHistory, list[str]]:
    history = PartitionHistory()
    found = [what for session, writes in (*START, *said) for what in history.see(session, writes)]
    return history, found


def test_a_life_without_fault() -> None:
    history, found = seen(
        # The leader leaves one out; the controller gives the partition to another, and dies.
        state(11, BEGIN._replace(isr=(1, 2))),
        state(11, BEGIN._replace(leader=2, leader_epoch=1, isr=(1, 2))),
        (11, [(paths.queued(2, 0), b"{}")]),
        (11, [(ELECTED.node_path, None), (paths.broker(1), None)]),
        elected(13, 2),
        state(13, LeaderAndIsr(2, 2, (2,), 2)),
        # Back in a session of its own, it is let in again.
        registered(1, 21),
        state(12, LeaderAndIsr(2, 2, (1, 2), 2)),
        (13, [(paths.topic("t"), topic(13, 2, 1)[1][0][1])]),
        # All die; the last of them comes back.
        state(13, LeaderAndIsr(NO_LEADER, 3, (2,), 2)),
        state(13, LeaderAndIsr(2, 4, (2,), 2)),
        (13, [(paths.leader_and_isr(PARTITION), None)]),
    )
    assert found == []
    assert history.states == {}
    assert [history.appointed[PARTITION, epoch] for epoch in range(5)] == [1, 2, 2, -1, 2]
    assert history.unclean == 0


def test_an_unclean_election_that_is_allowed_is_counted() -> None:
    flagged = LeaderAndIsr(3, 2, (3,), 1, is_recovering=True)
    history, found = seen(
        unclean(),
        state(11, LeaderAndIsr(NO_LEADER, 1, (1,), 1)),
        state(11, flagged),
        state(13, flagged._replace(isr=(2, 3), is_recovering=False)),
    )
    assert found == []
    assert history.unclean == 1


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ([elected(12, 1)], "controller epoch 1 after 1"),
        (
            [(11, [(ELECTED.node_path, None)]), (12, [(ELECTED.epoch_path, b"2")])],
            "without a holder",
        ),
        ([elected(12, 3), (12, [(ELECTED.epoch_path, b"4")])], "holds /controller at epoch 4"),
        ([state(12, BEGIN._replace(leader=2, leader_epoch=1))], "does not control, elected"),
        ([elected(12, 2), state(11, BEGIN._replace(leader_epoch=1))], "does not control, elected"),
        (
            [elected(12, 2), state(12, BEGIN._replace(leader_epoch=1))],
            "bears controller epoch 1, not 2",
        ),
        ([state(11, LeaderAndIsr(2, 1, (1, 3), 1))], "the leader is not in sync"),
        ([state(11, LeaderAndIsr(NO_LEADER, 1, (), 1))], "nobody is in sync"),
        (
            [state(11, LeaderAndIsr(1, 2, (1,), 1)), state(11, LeaderAndIsr(1, 1, (1,), 1))],
            "the leader epoch falls",
        ),
        (
            [state(11, BEGIN._replace(isr=(1,))), state(11, LeaderAndIsr(1, 1, (1, 2), 1))],
            "who was not in sync is counted in",
        ),
        (
            [
                state(11, BEGIN._replace(isr=(1,))),
                state(11, LeaderAndIsr(2, 1, (2,), 1, is_recovering=True)),
            ],
            "that the topic does not allow",
        ),
        (
            [
                unclean(),
                state(11, BEGIN._replace(isr=(1,))),
                state(11, LeaderAndIsr(2, 1, (2,), 1)),
            ],
            "that is not flagged",
        ),
        ([state(12, BEGIN._replace(isr=(1, 2)))], "which does not lead, changed the ISR"),
        ([registered(1, 21), state(11, BEGIN._replace(isr=(1, 2)))], "does not lead"),
        ([state(11, BEGIN._replace(leader=2))], "more than the ISR"),
        ([state(11, BEGIN._replace(isr=(2, 3)))], "the leader is not in sync"),
        ([state(11, BEGIN._replace(is_recovering=True))], "recovering all at once"),
        ([(12, [(paths.queued(2, 0), b"{}")])], "the instruction"),
        ([topic(12, 1, 2)], "the assignment of t"),
        ([(12, [(paths.leader_and_isr(PARTITION), None)])], "the end of t-0"),
        ([(11, [(paths.leader_and_isr(PARTITION), b"{")])], "leaderAndISR"),
    ],
)
def test_each_breach_is_found(said: Sequence[Said], complaint: str) -> None:
    _, found = seen(*said)
    assert sum(complaint in what for what in found) == 1, found
    assert len(found) <= 2


def test_a_controller_without_a_successor_may_finish() -> None:
    _, found = seen((11, [(ELECTED.node_path, None)]), state(11, BEGIN._replace(leader_epoch=1)))
    assert found == []
