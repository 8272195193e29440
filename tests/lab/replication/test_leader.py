"""The high watermark of a leader, and its proposals of an ISR."""

from collections.abc import Sequence

import pytest

from broker_ctl.lab.replication.leader import LeaderState
from broker_ctl.lab.replication.log import LogRecord, ReplicaLog
from tests.support.replicas.replica_planes import LAG_S, ORDERS, instruction, state

NOW_S = 100.0


class Leader:
    """Broker 1 at leader epoch 1, with some records of epoch 0."""

    def __init__(self, isr: Sequence[int] = (1, 2, 3), *, held: int = 0, min_isr: int = 1) -> None:
        self.log = ReplicaLog([LogRecord(0, b"")] * held)
        self.leader = LeaderState(
            1, instruction(state(1, 1, isr), min_isr=min_isr), self.log, NOW_S
        )
        self.leader.advance()

    def append(self, count: int = 1, now_s: float = NOW_S) -> None:
        self.leader.append([LogRecord(1, b"")] * count, now_s)

    def proposal(self, now_s: float = NOW_S, heard: Sequence[int] = (2, 3)) -> Sequence[int] | None:
        proposal = self.leader.update_proposal(now_s, LAG_S, lambda one: one in heard)
        assert proposal is None or (proposal.partition, proposal.leader_epoch) == (ORDERS, 1)
        return None if proposal is None else proposal.isr

    @property
    def committed(self) -> int:
        return self.log.high_watermark


def test_records_that_all_in_sync_have_are_committed() -> None:
    one = Leader()
    one.append(3)
    assert not one.leader.fetched(2, 3, NOW_S)
    assert one.committed == 0
    assert one.leader.fetched(3, 2, NOW_S)
    assert one.committed == 2
    one.leader.fetched(3, 3, NOW_S)
    assert one.committed == 3


def test_a_leader_that_is_alone_in_sync_commits_alone() -> None:
    one = Leader((1,), held=2)
    assert one.committed == 2
    one.append()
    assert one.committed == 3


def test_a_fetch_of_a_broker_without_a_replica_is_not_counted() -> None:
    one = Leader((1, 2))
    one.append()
    assert not one.leader.fetched(9, 1, NOW_S)
    assert one.proposal() is None


def test_with_fewer_in_sync_than_wanted_nothing_is_committed() -> None:
    one = Leader((1,), min_isr=2)
    assert not one.leader.has_enough_in_sync
    one.append()
    assert one.committed == 0


def test_a_follower_that_lags_is_proposed_away_and_counts_until_that_is_granted() -> None:
    one = Leader()
    one.append()
    one.leader.fetched(2, 1, NOW_S)
    assert one.proposal(NOW_S + LAG_S) is None
    assert one.proposal(NOW_S + LAG_S + 1) == (1, 2)
    assert one.committed == 0
    assert one.leader.answered(state(1, 1, (1, 2), 11))
    assert one.committed == 1
    assert one.leader.isr == (1, 2)
    assert one.leader.is_settled()


def test_idle_followers_do_not_lag() -> None:
    one = Leader()
    for follower in (2, 3):
        one.leader.fetched(follower, 0, NOW_S)
    assert one.leader.is_settled()
    # Long after, something is written: up to then they had everything.
    later_s = NOW_S + 1000
    one.append(1, later_s)
    assert one.proposal(later_s + LAG_S) is None
    assert one.proposal(later_s + LAG_S + 1) == (1,)


def test_a_follower_that_is_always_one_fetch_behind_does_not_lag() -> None:
    one = Leader((1, 2))
    for turn in range(20):
        now_s = NOW_S + turn * LAG_S / 2
        one.leader.fetched(2, turn, now_s)
        one.append(1, now_s)
        assert one.proposal(now_s) is None


def test_a_new_leader_gives_every_follower_the_lag_time() -> None:
    one = Leader(held=5)
    assert not one.leader.is_settled()
    assert one.proposal(NOW_S + LAG_S) is None
    assert one.proposal(NOW_S + LAG_S + 1) == (1,)


@pytest.mark.parametrize(("end", "joins"), [(4, False), (5, True)])
def test_a_follower_joins_the_isr_once_it_has_all_that_is_committed(end: int, joins: bool) -> None:
    one = Leader((1, 2), held=4)
    one.append()
    one.leader.fetched(2, 5, NOW_S)
    assert one.committed == 5
    one.leader.fetched(3, end, NOW_S)
    assert one.proposal() == ((1, 2, 3) if joins else None)


def test_a_follower_with_less_than_the_leader_began_with_may_not_join() -> None:
    """Its high watermark lags behind what the leader before it had committed."""
    one = Leader((1, 2), held=4)
    assert one.committed == 0
    one.leader.fetched(3, 3, NOW_S)
    assert one.proposal() is None
    one.leader.fetched(3, 4, NOW_S)
    assert one.proposal() == (1, 2, 3)


def test_a_follower_that_was_not_heard_of_lately_may_not_join() -> None:
    one = Leader((1, 2))
    one.leader.fetched(3, 0, NOW_S)
    one.leader.fetched(2, 0, NOW_S)
    assert one.proposal(heard=(2,)) is None
    assert not one.leader.is_settled()
    assert one.proposal(heard=(2, 3)) == (1, 2, 3)


def test_the_proposal_stays_the_same_until_it_is_answered() -> None:
    one = Leader()
    one.append()
    assert one.proposal(NOW_S + LAG_S + 1) == (1,)
    one.leader.fetched(2, 1, NOW_S + LAG_S + 1)
    assert one.proposal(NOW_S + LAG_S + 2) == (1,)
    # At the version that it knew: not written yet, and may be at any time.
    one.leader.answered(state(1, 1, (1, 2, 3)))
    assert one.proposal() == (1,)
    one.leader.answered(state(1, 1, (1,), 11))
    assert one.leader.proposal is None
    assert one.proposal() == (1, 2)


def test_what_the_controller_repeats_is_taken_over_where_it_is_newer() -> None:
    one = Leader((1, 2))
    one.append()
    one.leader.fetched(2, 1, NOW_S)
    assert not one.leader.on_repeated_instruction(
        instruction(state(1, 1, (1, 2, 3), 9), min_isr=2), NOW_S
    )
    assert (one.leader.isr, one.leader.min_isr) == ((1, 2), 2)
    one.leader.on_repeated_instruction(instruction(state(1, 1, (1, 2, 3), 12)), NOW_S)
    assert (one.leader.isr, one.leader.version) == ((1, 2, 3), 12)
    one.append()
    one.leader.fetched(2, 2, NOW_S)
    assert one.committed == 1


def test_a_follower_about_to_stop_may_join_once_the_controller_names_it_again() -> None:
    one = Leader((1, 2))
    without, with_it = (
        instruction(state(1, 1, (1, 2)), replicas=(1, 2)),
        instruction(state(1, 1, (1, 2))),
    )
    one.leader.on_repeated_instruction(without, NOW_S)
    for follower in (2, 3):
        one.leader.fetched(follower, 0, NOW_S)
    assert one.leader.is_settled()
    assert one.proposal() is None
    one.leader.on_repeated_instruction(with_it, NOW_S)
    assert one.proposal() == (1, 2, 3)


def test_a_follower_that_is_named_again_has_the_lag_time_like_any_other() -> None:
    log = ReplicaLog([])
    leader = LeaderState(1, instruction(state(1, 1, (1,)), replicas=(1,)), log, NOW_S)
    later_s = NOW_S + 1000
    leader.on_repeated_instruction(instruction(state(1, 1, (1, 2), 11), replicas=(1, 2)), later_s)
    leader.append([LogRecord(1, b"")], later_s)
    assert leader.update_proposal(later_s + LAG_S, LAG_S, lambda _: True) is None
    assert leader.update_proposal(later_s + LAG_S + 1, LAG_S, lambda _: True) is not None


def test_an_answer_of_an_earlier_epoch_says_nothing() -> None:
    one = Leader()
    one.append()
    one.leader.answered(state(1, 0, (1,), 99))
    assert one.leader.isr == (1, 2, 3)


def test_a_member_of_the_isr_that_is_not_a_replica_holds_commits_back() -> None:
    one = Leader((1, 2))
    one.leader.answered(state(1, 1, (1, 2, 7), 11))
    one.append()
    one.leader.fetched(2, 1, NOW_S)
    assert one.committed == 0
    assert one.proposal() == (1, 2)


# Two leaders in transition (docs: kafka-design-v3, kafka-failure-kinds).


def test_a_paused_leader_cannot_commit_without_the_one_that_was_elected() -> None:
    """A (1) sleeps, B (2) is elected with ISR {2, 3}: B fetches from A no more."""
    one = Leader()
    one.append()
    one.leader.fetched(3, 1, NOW_S)
    assert one.committed == 0
    # It would have to shrink the ISR first, and the store has moved on.
    assert one.proposal(NOW_S + LAG_S + 1) == (1, 3)
    assert not one.leader.answered(state(2, 2, (2, 3), 11))
    assert one.committed == 0
    assert one.leader.is_superseded
    one.append()
    one.leader.fetched(2, 2, NOW_S)
    one.leader.fetched(3, 2, NOW_S)
    assert one.committed == 0
    assert one.proposal(NOW_S + LAG_S + 2) == (1, 3)


def test_an_expansion_in_flight_counts_both_whatever_becomes_of_it() -> None:
    """The proposal may stand in the store, and the new member lead by it."""
    one = Leader((1, 2))
    one.leader.fetched(3, 0, NOW_S)
    assert one.proposal() == (1, 2, 3)
    one.append()
    one.leader.fetched(2, 1, NOW_S)
    assert one.committed == 0
    # Superseded, and it is not known whether it was granted before.
    one.leader.answered(state(1, 2, (1, 2), 12))
    assert one.committed == 0
    one.leader.fetched(3, 1, NOW_S)
    assert one.committed == 0


def test_an_expansion_that_is_granted_counts_the_new_member() -> None:
    one = Leader((1, 2))
    one.leader.fetched(3, 0, NOW_S)
    assert one.proposal() == (1, 2, 3)
    one.leader.answered(state(1, 1, (1, 2, 3), 11))
    one.append()
    one.leader.fetched(2, 1, NOW_S)
    assert one.committed == 0
    one.leader.fetched(3, 1, NOW_S)
    assert one.committed == 1
