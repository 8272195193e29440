"""The figures of a restart, from logs that are written by hand."""

from collections.abc import Iterable
from typing import Any

from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from tests.benchmarks.rollouts.gaps import Gaps

SECOND = 1_000_000_000


def at(tenths: int, token: int, *positions: int) -> ServeEvent:
    return ServeEvent(tenths * SECOND // 10, "b:1", token, positions)


def figures(events: Iterable[ServeEvent], begin_ns: int, end_ns: int) -> dict[str, Any]:
    gaps = Gaps(begin_ns)
    gaps.add(events)
    return gaps.figures(end_ns)


def test_a_topic_that_is_served_all_the_time_has_no_gap() -> None:
    events = [at(tenth, 1, 7) for tenth in range(101)]
    seen = figures(events, 0, 10 * SECOND)
    assert (seen["longest_gap_s"], seen["p99_99_s"], seen["moves"]) == (0.0, 0.0, 1)


def test_waits_are_those_of_messages_that_come_evenly_in_time() -> None:
    # Of ten seconds, one topic of two is unserved for two: a tenth of all messages waits.
    first = [at(tenth, 1, 7) for tenth in range(101)]
    second = [at(tenth, 2 if tenth < 40 else 3, 8) for tenth in range(101) if not 40 < tenth < 61]
    events = sorted([*first, *second], key=lambda event: event.t_ns)
    seen = figures(events, 1, 10 * SECOND)
    assert (seen["longest_gap_s"], seen["gaps_above_1_s"], seen["topics"]) == (2.0, 1, 2)
    # One message of a hundred waits longer than 1.8 s, one of a thousand longer than 1.98 s.
    assert seen["p99_s"] == 1.8
    assert seen["p99_9_s"] == 1.98


def test_only_tokens_of_the_time_between_are_moves() -> None:
    events = [at(1, 1, 7), at(2, 2, 8), at(11, 1, 7), at(12, 3, 8), at(21, 4, 8)]
    assert figures([e for e in events if e.t_ns <= 2 * SECOND], SECOND, 2 * SECOND)["moves"] == 1


def test_a_topic_that_is_not_served_at_the_end_has_a_gap_until_then() -> None:
    assert figures([at(0, 1, 7), at(1, 1, 7)], 0, 10 * SECOND)["longest_gap_s"] == 9.8
