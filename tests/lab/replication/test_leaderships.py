"""The frames that a leader sends to one follower."""

import pytest

from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.lab.replication.fetchers import Feed, FetchPlace
from broker_ctl.lab.replication.leaderships import Leaderships
from broker_ctl.lab.replication.log import LogRecord, ReplicaLog
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.storage import Holding, MemoryStorage
from broker_ctl.lab.time import ManualClock
from tests.support.replicas.replica_planes import LAG_S, ORDERS, TOPIC_ID, instruction, state

ROW = ["orders", 0]


class Leader:
    """Broker 1 at leader epoch 2, with two records of epoch 0 and one follower, broker 2."""

    def __init__(self) -> None:
        storage, clock = MemoryStorage(), ManualClock()
        storage.hold([Holding(ORDERS, TOPIC_ID, 2)])
        self.replica = Replica(
            ORDERS, TOPIC_ID, 2, ReplicaLog([LogRecord(0, b"a"), LogRecord(0, b"b")])
        )
        self.leaders = Leaderships(
            1,
            {ORDERS: self.replica},
            storage,
            clock=clock,
            authority=lambda: Authority(1, float("inf")),
        )
        self.leaders.begin(self.replica, instruction(state(1, 2, (1, 2)), replicas=(1, 2)))
        self.feed: Feed = self.leaders.feeds.open(2, clock.now_s())

    def name(self, end: int, last: int, epoch: int = 2, topic_id: str = TOPIC_ID) -> None:
        self.leaders.feeds.name(self.feed, ORDERS, FetchPlace(topic_id, epoch, end, last))

    def frame(self) -> object:
        self.leaders.feeds.mark(ORDERS)
        return self.leaders.frame(self.feed)


def test_a_follower_gets_what_it_lacks_once_for_each_place() -> None:
    leader = Leader()
    leader.name(0, -1)
    records = [[0, "a"], [0, "b"]]
    assert leader.frame() == {"data": [[*ROW, 2, 0, 0, records]], "cuts": []}
    assert leader.frame() == {}
    leader.name(2, 0)
    assert leader.frame() == {"data": [[*ROW, 2, 2, 2, []]], "cuts": []}
    assert leader.frame() == {}
    leader.name(2, 0)
    assert leader.frame() == {}


def test_a_follower_with_another_log_gets_its_cut_once_for_each_place() -> None:
    leader = Leader()
    leader.name(3, 1)
    assert leader.frame() == {"data": [], "cuts": [[*ROW, 2, 3, 0, 2]]}
    assert leader.frame() == {}
    leader.leaders.produce(ORDERS, -1, [b"c"], is_for_all=False)
    assert leader.frame() == {}
    assert leader.replica.log.high_watermark == 0
    leader.name(2, 0)
    assert leader.frame() == {"data": [[*ROW, 2, 2, 2, [[2, "c"]]]], "cuts": []}


@pytest.mark.parametrize(("epoch", "topic_id"), [(1, TOPIC_ID), (3, TOPIC_ID), (2, "f" * 32)])
def test_a_place_under_another_epoch_or_topic_waits(epoch: int, topic_id: str) -> None:
    leader = Leader()
    leader.name(2, 0, epoch, topic_id)
    assert leader.frame() == {}
    assert leader.replica.log.high_watermark == 0


def test_a_follower_that_disconnected_is_not_heard_of_any_more() -> None:
    leader = Leader()
    leader.name(2, 0)
    assert leader.leaders.feeds.last_contact_s(2) > 0
    leader.leaders.feeds.close(leader.feed)
    assert leader.leaders.feeds.last_contact_s(2) == 0
    assert not leader.leaders.feeds._by_partition


def test_a_connection_that_was_served_late_does_not_stand_for_its_follower() -> None:
    """The leader was stopped, and serves a connection that the follower has given up long ago."""
    leader = Leader()
    leader.name(2, 0)
    leader.frame()
    late = leader.leaders.feeds.open(2, 0.0)
    leader.leaders.feeds.name(late, ORDERS, FetchPlace(TOPIC_ID, 2, 0, -1))
    leader.leaders.frame(late)
    leader.leaders.feeds.close(late)
    leader.leaders.frame(leader.feed)
    assert leader.replica.leader is not None
    assert leader.replica.leader.is_settled()


def test_a_partition_that_is_forgotten_gets_no_frame() -> None:
    leader = Leader()
    leader.name(0, -1)
    leader.leaders.feeds.forget(leader.feed, [ORDERS])
    assert leader.frame() == {}
    assert not leader.leaders.feeds._by_partition


def test_a_follower_that_is_idle_is_let_in_once_it_is_named_again() -> None:
    """It was at the end before its leader heard that it may be in sync (again)."""
    leader = Leader()
    alone = state(1, 3, (1,))
    leader.leaders.begin(leader.replica, instruction(alone, replicas=(1,)))
    leader.name(2, 0, epoch=3)
    leader.frame()
    assert leader.leaders.proposals(LAG_S) == []
    leader.leaders.on_repeated_instruction(leader.replica, instruction(alone, replicas=(1, 2)))
    leader.leaders.frame(leader.feed)
    assert [proposal.isr for proposal in leader.leaders.proposals(LAG_S)] == [(1, 2)]
