"""Acts against reigns: each kind of wrong act is found."""

from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from tests.chaos.judges.replay import Reign, Replay
from tests.chaos.judges.verdict import (
    acts_past_the_lease,
    double_served,
    early_takeovers,
    late_recoveries,
    some,
    unowned_tokens,
    wrongly_refused,
)
from tests.chaos.judges.wall_clock import WallClock

LEFT, RIGHT = Ring.even(Namespace("public", "default"), 2).bundles
MS = 1_000_000
SAME = WallClock(lambda: 0, lambda: 0)
APART = WallClock(lambda: -500 * MS, lambda: 0)


def reign(broker: str, token: int, begin_ms: int, end_ms: int | None = None) -> Reign:
    bundle: Bundle = LEFT
    return Reign(bundle, broker, token, token, begin_ms, end_ms)


def of(*reigns: Reign) -> Replay:
    replay = Replay("")
    replay.reigns.extend(reigns)
    return replay


def since(begin_ms: int, *reigns: Reign) -> Replay:
    """Of sessions that all began then."""
    replay = of(*reigns)
    replay.begins.update({one.session: begin_ms for one in reigns})
    return replay


def act(broker: str, token: int, t_ms: int, position: int = 7) -> ServeEvent:
    return ServeEvent(t_ms * MS, broker, token, (position,))


def test_one_owner_after_the_other_is_not_a_violation() -> None:
    replay = of(reign("a", 1, 1000, 2000), reign("b", 2, 2000))
    acts = [act("a", 1, 1500), act("b", 2, 2500)]
    assert list(double_served(acts)) == []
    assert list(unowned_tokens(acts, replay)) == []
    assert list(acts_past_the_lease(acts, replay, SAME, ())) == []


def test_an_old_owner_that_acts_after_the_new_one_is_found() -> None:
    assert len(list(double_served([act("b", 2, 1), act("a", 1, 2)]))) == 1
    assert len(list(double_served([act("a", 1, 1), act("b", 1, 2)]))) == 1


def test_a_token_of_another_broker_or_of_another_bundle_is_found() -> None:
    replay = of(reign("a", 1, 0))
    assert len(list(unowned_tokens([act("b", 1, 1)], replay))) == 1
    assert len(list(unowned_tokens([act("a", 1, 1, position=0x90000000)], replay))) == 1


def test_an_act_after_the_end_of_the_node_is_found_except_in_a_forced_session_end() -> None:
    replay = of(reign("a", 1, 1000, 2000))
    late = [act("a", 1, 2100)]
    assert len(list(acts_past_the_lease(late, replay, SAME, ()))) == 1
    assert list(acts_past_the_lease(late, replay, SAME, {1})) == []
    # The clocks of the acts and of the servers start at different times.
    assert list(acts_past_the_lease(late, replay, APART, ())) == []


def test_an_act_says_by_how_much_it_missed() -> None:
    replay = of(reign("a", 1, 1000, 2000), reign("a", 2, 3000))
    (said,) = acts_past_the_lease([act("a", 1, 2100)], replay, SAME, ())
    assert said.endswith("at 2100 without owning it; it had 100 ms before and it did 900 ms later")
    (said,) = acts_past_the_lease([act("b", 1, 2100)], replay, SAME, ())
    assert said.endswith("; it never did")


def test_a_takeover_within_the_grace_is_found_and_a_return_is_not() -> None:
    first = reign("a", 1, 0, 1000)
    first.had_grace = True
    assert len(list(early_takeovers(since(-1000, first, reign("b", 2, 1500)), 2000))) == 1
    assert list(early_takeovers(since(-1000, first, reign("a", 2, 1500)), 2000)) == []
    assert list(early_takeovers(since(-1000, first, reign("b", 2, 3500)), 2000)) == []


def test_a_broker_that_started_after_an_owner_had_gone_is_not_held_to_its_grace() -> None:
    first = reign("a", 1, 0, 1000)
    first.had_grace = True
    assert list(early_takeovers(since(1200, first, reign("b", 2, 1500)), 2000)) == []


def test_an_owner_that_was_not_registered_has_no_grace() -> None:
    replay = since(-1000, reign("a", 1, 0, 1000), reign("b", 2, 1500))
    assert list(early_takeovers(replay, 2000)) == []


def test_an_owner_that_is_refused_before_another_has_owned_the_hash_is_found() -> None:
    replay = of(reign("a", 1, 1000, 2000), reign("b", 2, 2000))
    assert list(wrongly_refused([act("a", 1, 2500)], replay, SAME)) == []
    assert len(list(wrongly_refused([act("a", 1, 1500)], replay, SAME))) == 1
    assert len(list(wrongly_refused([act("b", 2, 2500)], replay, SAME))) == 1
    assert len(list(wrongly_refused([act("a", 1, 2500, position=0x90000000)], replay, SAME))) == 1


def test_a_recovery_beyond_the_bound_is_found() -> None:
    assert list(late_recoveries([("cut", 9.0), ("kill", 11.0)], 10.0)) == [
        "I6: after kill it took 11.0 s until all was served"
    ]


def test_only_the_first_of_many_violations_are_listed() -> None:
    assert 0 < len(some(str(number) for number in range(1000))) < 20
