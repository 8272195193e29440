"""What is planted is found by judges that work, and missed by those that do not."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker_ctl.dataplane.bundles.bundle_table import RingTokens
from tests.chaos.judges import evidence as judges
from tests.chaos.judges import replay
from tests.chaos.judges.acts import Guard, SharedLog
from tests.chaos.judges.evidence import Evidence
from tests.chaos.judges.planted import missed, sentences
from tests.chaos.judges.verdict import double_served
from tests.chaos.judges.wall_clock import WallClock

GUARDS = [Guard.LEASE, Guard.TOKENS]


def nothing(guard: Guard) -> Evidence:
    """Of a phase in which nothing happened."""
    return Evidence(guard, "/cluster", [], WallClock())


def none(*_: object) -> Iterator[str]:
    return iter(())


@pytest.mark.parametrize("guard", GUARDS)
def test_all_that_is_planted_is_found(guard: Guard) -> None:
    assert list(missed(nothing(guard))) == []


def test_a_run_with_both_guards_shows_each_sentence() -> None:
    covered = sentences(Guard.LEASE) | sentences(Guard.TOKENS)
    assert covered == {"I1a", "I1b", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I12"}
    assert "I1a" not in sentences(Guard.TOKENS)


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("acts_past_the_lease", "I1a"),
        ("double_served", "I1b"),
        ("wrongly_refused", "I1b"),
        ("unowned_tokens", "I2"),
        ("miscounted", "I4"),
        ("late_recoveries", "I6"),
        ("unanswered", "I6"),
        ("early_takeovers", "I7"),
        ("contradictions", "I9"),
    ],
)
def test_a_judge_that_finds_nothing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, judge: str, sentence: str
) -> None:
    monkeypatch.setattr(judges, judge, none)
    (said,) = missed(nothing(Guard.LEASE))
    assert said.startswith(f"{sentence}: what was planted")


@pytest.mark.parametrize(
    ("found_by", "sentence"),
    [(("_judge_epoch",), "I3"), (("_judge_owner", "_judge_rings"), "I5")],
)
def test_a_replay_that_finds_nothing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, found_by: tuple[str, ...], sentence: str
) -> None:
    for judge in found_by:
        monkeypatch.setattr(replay.Replay, judge, none)
    (said,) = missed(nothing(Guard.LEASE))
    assert said.startswith(f"{sentence}: what was planted")


def test_a_replay_that_forgets_ephemeral_nodes_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay.Replay, "ephemerals", ())
    (said,) = missed(nothing(Guard.LEASE))
    assert said.startswith("I8: what was planted")


def test_a_judge_that_finds_violations_in_a_correct_story_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def anybody(played: replay.Replay, _: int) -> Iterator[str]:
        for reign in played.reigns:
            yield f"I7: {reign.broker_id} took {reign.bundle}"

    monkeypatch.setattr(judges, "early_takeovers", anybody)
    monkeypatch.setattr(judges, "some", list)
    said = list(missed(nothing(Guard.LEASE)))
    assert said
    assert all(one.startswith("nothing was false, and was judged so: I7") for one in said)


def take(log: SharedLog, broker: str, token: int) -> None:
    row: dict[str, Any] = {"t": 1, "broker": broker, "acts": [(token, [7])]}
    log._take(row)


def test_a_log_that_refuses_no_old_token_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_broken in (False, True):
        if is_broken:
            monkeypatch.setattr(RingTokens, "highest", lambda *_: 0)
        log = SharedLog(Guard.TOKENS)
        for token in (1, 3, 2):
            take(log, f"b{token}", token)
        assert bool(list(double_served(list(log.in_order())))) is is_broken
        assert [act.token for act in log.refused] == ([] if is_broken else [2])


def test_a_judge_of_loops_that_finds_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "lost_or_kept", none)
    said = list(missed(nothing(Guard.LEASE)))
    assert said == ["I12: what was planted was not found"] * 2
