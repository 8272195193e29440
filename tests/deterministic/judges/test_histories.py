"""The checker of histories must be able to fail, by times and answers alone."""

from broker_ctl.core.model.names import Bundle, BundleRange, Namespace
from broker_ctl.core.partitions.values import TopicPartition
from tests.deterministic.judges.histories import unexplained_acts, unexplained_writes
from tests.deterministic.judges.observer import Observer, Reign
from tests.deterministic.world.topics import NAMESPACE
from tests.linearizability.checker import Operation
from tests.linearizability.records import RecordHistory

BUNDLE = Bundle(NAMESPACE, BundleRange(0, 100))
HASH = 7
PARTITION = TopicPartition("t", 0)
SET, DONE, REFUSED = "set", True, False


def observed(*acts: tuple[float, str, int], second_s: float = 5.0) -> Observer:
    """``a`` owns from 1 to 5 s under token 1, then ``b`` under token 2."""
    observer = Observer(2.0)
    first = Reign(BUNDLE, "a", session_id=11, token=1, begin_s=1.0, end_s=5.0)
    second = Reign(BUNDLE, "b", session_id=12, token=2, begin_s=second_s)
    observer.reigns = {1: [first], 2: [second]}
    observer.acted = {HASH: list(acts)}
    return observer


def test_acts_of_owners_are_explained() -> None:
    assert list(unexplained_acts(observed((1.0, "a", 1), (5.0, "a", 1), (5.0, "b", 2)))) == []


def test_an_act_after_the_end_of_its_owner_is_not_explained() -> None:
    (said,) = unexplained_acts(observed((5.001, "a", 1)))
    assert "act of a at 5.001" in said


def test_an_act_before_its_owner_begins_is_not_explained() -> None:
    (said,) = unexplained_acts(observed((4.999, "b", 2)))
    assert "act of b at 4.999" in said


def test_two_owners_at_once_are_not_explained() -> None:
    (said,) = unexplained_acts(observed((2.0, "a", 1), second_s=4.0))
    assert "own of b at 4.000" in said


def test_an_owner_of_the_same_hash_in_another_namespace_makes_no_difference() -> None:
    observer = observed((2.0, "a", 1))
    other = Bundle(Namespace("public", "passing"), BundleRange(0, 50))
    observer.reigns[3] = [Reign(other, "b", session_id=13, token=3, begin_s=1.5)]
    assert list(unexplained_acts(observer)) == []


def test_a_session_that_was_ended_by_force_may_act_on() -> None:
    observer = observed((5.5, "a", 1))
    observer.forced.add(11)
    assert list(unexplained_acts(observer)) == []


def test_a_write_that_is_acknowledged_twice_for_one_version_is_not_explained() -> None:
    once = Operation(0, 1, (SET, 0), DONE)
    twice = Operation(2, 3, (SET, 0), DONE)
    assert list(unexplained_writes({"/n": [once, Operation(2, 3, (SET, 0), REFUSED)]})) == []
    (said,) = unexplained_writes({"/n": [once, twice]})
    assert said.startswith("I4: no order of the writes of /n")


def test_a_record_in_the_log_that_nobody_had_sent_by_then_is_not_explained() -> None:
    history = RecordHistory()
    history.append(PARTITION, b"one", 0.0, 1.0, 0)
    history.append_unanswered(PARTITION, b"two", 3.0)
    assert list(history.judge({PARTITION: [b"one", b"two"]}, 9.0)) == []
    assert list(history.judge({PARTITION: [b"one"]}, 9.0)) == []
    history.read(PARTITION, 1, [b"two"], 1.5, 2.5)
    (said,) = history.judge({PARTITION: [b"one", b"two"]}, 9.0)
    assert said.startswith("I9: t-0: no order of its records")


def test_a_committed_record_that_is_lost_or_moved_is_not_explained() -> None:
    history = RecordHistory()
    history.append(PARTITION, b"one", 0.0, 1.0, 0)
    history.append(PARTITION, b"two", 2.0, 3.0, 1)
    assert len(list(history.judge({PARTITION: [b"one"]}, 9.0))) == 1
    assert len(list(history.judge({PARTITION: [b"two", b"one"]}, 9.0))) == 1
