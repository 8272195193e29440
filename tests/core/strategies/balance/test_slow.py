"""Which brokers are slow, for how long, and with which effect (docs: cruise-control)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.rules.leader_rules import MIB, SlowRules
from broker_ctl.core.strategies.balance.slowness import (
    SlowMemory,
    SlownessSample,
    SlownessVerdict,
    Trust,
    demotion_skips,
    findings,
    observe,
    verdicts,
)

RULES: Final = SlowRules()
REMOVING: Final = SlowRules(is_removing=True)
HEALTHY: Final = SlownessSample(0.5, 250 * MIB)


def healthy(count: int) -> dict[str, SlownessSample]:
    return {f"b{number}": HEALTHY for number in range(1, count + 1)}


def dear(times: float) -> SlownessSample:
    """The same usage for so much less traffic."""
    return replace(HEALTHY, throughput_bytes=HEALTHY.throughput_bytes / times)


def watched(
    samples: Mapping[str, SlownessSample],
    rounds: int,
    rules: SlowRules = RULES,
    memory: SlowMemory | None = None,
) -> SlowMemory:
    memory = memory or SlowMemory()
    for _ in range(rounds):
        memory = observe(memory, samples, rules)
    return memory


def slow_now(samples: Mapping[str, SlownessSample], memory: SlowMemory | None = None) -> set[str]:
    histories = {key: each.history for key, each in (memory or SlowMemory()).brokers.items()}
    return {key for key, each in findings(samples, histories, RULES).items() if each.is_slow}


@pytest.mark.parametrize(
    ("sample", "is_slow"),
    [
        (HEALTHY, False),
        (dear(2.9), False),
        (dear(3.1), True),
        # Full, and worth it.
        (SlownessSample(1.0, 500 * MIB), False),
        # An idle machine uses something for nothing.
        (SlownessSample(0.19, 2 * MIB), False),
        (SlownessSample(0.2, 2 * MIB), True),
        (SlownessSample(0.9, MIB - 1), False),
        (SlownessSample(0.9, MIB), True),
        # A quarter of the size: the same share of a median broker.
        (replace(dear(4), size_ratio=0.25), False),
        # Ten times the messages, and they are worth a kilobyte each.
        (replace(dear(4), msg_rate=250_000), False),
        (replace(HEALTHY, age_s=1800), False),
        (replace(HEALTHY, age_s=1801), True),
        (replace(dear(4), age_s=1800), True),
        (SlownessSample(float("nan"), 250 * MIB), False),
        (SlownessSample(float("inf"), 250 * MIB), False),
        (SlownessSample(-1.0, 250 * MIB), False),
        (replace(HEALTHY, msg_rate=-200_000), False),
    ],
)
def test_slowness_is_judged_among_peers(sample: SlownessSample, is_slow: bool) -> None:
    assert slow_now({**healthy(4), "b5": sample}) == ({"b5"} if is_slow else set())


def test_between_two_nobody_can_say_who_is_odd() -> None:
    assert slow_now({**healthy(1), "b5": dear(9)}) == set()
    assert slow_now({**healthy(2), "b5": dear(9)}) == {"b5"}
    # An idle broker is not a peer; nor are those that report no usage.
    assert slow_now({**healthy(1), "idle": SlownessSample(0.01, 10), "b5": dear(9)}) == set()
    mute = {f"b{number}": SlownessSample(0.0, 250 * MIB) for number in range(4)}
    assert slow_now({**mute, "b5": dear(9)}) == set()


def test_a_broker_is_not_its_own_peer() -> None:
    # Peers at 1 and 4: their median is 2.5; with the broker itself it would be 4.
    samples = {"b1": HEALTHY, "b2": dear(4), "b5": dear(8)}
    assert slow_now(samples) == {"b5"}
    found = findings(samples, {}, RULES)
    assert found["b5"].peers_cost == pytest.approx(2.5 * HEALTHY.cost)
    assert found["b1"].peers_cost == pytest.approx(6 * HEALTHY.cost)


def test_a_strong_broker_that_becomes_sick_is_slow_before_it_is_the_dearest_by_far() -> None:
    usual = {**healthy(4), "b5": dear(0.5)}
    memory = watched(usual, 10)
    assert slow_now({**healthy(4), "b5": dear(1.6)}, memory) == {"b5"}
    assert slow_now({**healthy(4), "b5": dear(1.4)}, memory) == set()
    # Nine rounds are not enough for a history.
    assert slow_now({**healthy(4), "b5": dear(1.6)}, watched(usual, 9)) == set()


def test_a_broker_not_dearer_than_its_peers_is_not_slow_however_cheap_it_was() -> None:
    memory = watched({**healthy(4), "b5": dear(0.1)}, 20)
    assert slow_now({**healthy(4), "b5": dear(0.9)}, memory) == set()


def test_a_cost_that_rises_on_all_brokers_makes_none_slow() -> None:
    memory = watched(healthy(5), 30)
    assert slow_now(dict.fromkeys(healthy(5), dear(20)), memory) == set()


def test_a_lasting_cost_becomes_normal_unless_the_peers_are_cheaper() -> None:
    cheap = watched({**healthy(4), "b5": dear(0.5)}, 120)
    higher = watched({**healthy(4), "b5": dear(2)}, 12, memory=cheap)
    assert higher.brokers["b5"].score == 12
    assert watched({**healthy(4), "b5": dear(2)}, 13, memory=higher).brokers["b5"].score == 1
    sick = watched({**healthy(4), "b5": dear(4)}, 60, memory=cheap)
    assert sick.brokers["b5"].score == 50
    assert len(sick.brokers["b5"].history) == 120


def test_five_rounds_demote_and_fifty_remove_where_that_is_allowed() -> None:
    samples = {**healthy(4), "b5": dear(4)}
    trusts = {
        rounds: (
            verdicts(watched(samples, rounds), RULES)["b5"].trust,
            verdicts(watched(samples, rounds, REMOVING), REMOVING)["b5"].trust,
        )
        for rounds in (1, 4, 5, 49, 50, 80)
    }
    assert trusts == {
        1: (Trust.SUSPECTED, Trust.SUSPECTED),
        4: (Trust.SUSPECTED, Trust.SUSPECTED),
        5: (Trust.DEMOTED, Trust.DEMOTED),
        49: (Trust.DEMOTED, Trust.DEMOTED),
        50: (Trust.DEMOTED, Trust.REMOVED),
        80: (Trust.DEMOTED, Trust.REMOVED),
    }
    assert verdicts(watched(samples, 5), RULES)["b1"].trust is Trust.TRUSTED


def test_a_broker_that_recovers_is_trusted_again_after_as_many_rounds() -> None:
    memory = watched({**healthy(4), "b5": dear(4)}, 500, REMOVING)
    found = verdicts(watched(healthy(5), 1, REMOVING, memory), REMOVING)["b5"]
    assert (found.trust, found.score) == (Trust.DEMOTED, 49)
    assert verdicts(watched(healthy(5), 46, REMOVING, memory), REMOVING)["b5"].can_receive
    assert not verdicts(watched(healthy(5), 45, REMOVING, memory), REMOVING)["b5"].can_receive
    # Drained, it has no traffic: so it comes back on trial.
    empty = {**healthy(4), "b5": SlownessSample(0.01, 0)}
    assert verdicts(watched(empty, 46, REMOVING, memory), REMOVING)["b5"].can_receive


def test_a_broker_that_left_is_forgotten_once_its_score_is_zero() -> None:
    memory = watched({**healthy(4), "b5": dear(4)}, 6)
    away = watched(healthy(4), 2, memory=memory)
    assert away.brokers["b5"].score == 4
    assert verdicts(away, RULES)["b5"].detail == "suspected with a score of 4: it is not there"
    back = watched({**healthy(4), "b5": dear(4)}, 1, memory=away)
    assert back.brokers["b5"].score == 5
    assert set(watched(healthy(4), 6, memory=memory).brokers) == set(healthy(4))
    assert set(watched(healthy(3), 1, memory=memory).brokers) == {*healthy(3), "b5"}


@pytest.mark.parametrize(
    ("count", "slow", "is_acted_on"),
    [
        # One may always be acted on, though it is a fifth of five.
        (5, 1, True),
        (5, 2, False),
        (19, 1, True),
        (19, 2, False),
        (20, 2, True),
        (29, 3, False),
        (30, 3, True),
        (30, 4, False),
    ],
)
def test_where_more_than_a_tenth_are_slow_at_once_nobody_is_acted_on(
    count: int, slow: int, is_acted_on: bool
) -> None:
    sick = {f"b{number}": dear(4) for number in range(1, slow + 1)}
    found = verdicts(watched({**healthy(count), **sick}, 5), RULES)
    trust = Trust.DEMOTED if is_acted_on else Trust.UNFIXABLE
    assert {key for key, each in found.items() if each.trust is trust} == set(sick)
    assert all(each.can_receive is not (is_acted_on and key in sick) for key, each in found.items())
    reasons = [skip.reason for skip in demotion_skips(found)]
    assert reasons == ([Reason.SLOW_BROKER] * slow if is_acted_on else [Reason.TOO_MANY_SLOW])


def test_the_last_broker_is_never_acted_on() -> None:
    alone = {"b1": replace(HEALTHY, age_s=9999)}
    assert verdicts(watched(alone, 9), RULES)["b1"].trust is Trust.UNFIXABLE
    both = {**alone, "b2": replace(HEALTHY, age_s=9999)}
    assert {each.trust for each in verdicts(watched(both, 9), RULES).values()} == {Trust.UNFIXABLE}


def test_brokers_that_are_not_judged_do_not_count_for_the_tenth() -> None:
    idle = {f"idle{number}": SlownessSample(0.01, 10) for number in range(40)}
    samples = {**healthy(10), "b1": dear(4), "b2": dear(4)}
    assert not any(
        each.can_receive is False for each in verdicts(watched(samples, 5), RULES).values()
    )
    found = verdicts(watched({**samples, **idle}, 5), RULES)
    assert found["b1"].trust is Trust.UNFIXABLE


def test_a_slow_broker_that_has_become_idle_still_counts() -> None:
    sick = {"b1": dear(4), "b2": dear(4)}
    memory = watched({**healthy(20), **sick}, 10)
    idle = {key: SlownessSample(0.01, 0) for key in sick}
    found = verdicts(watched({**healthy(20), **idle}, 2, memory=memory), RULES)
    assert [found[key].trust for key in sick] == [Trust.DEMOTED, Trust.DEMOTED]


def test_a_demotion_is_explained_by_score_and_cost_and_what_it_is_compared_with() -> None:
    memory = watched(healthy(5), 10)
    memory = watched({**healthy(4), "b5": dear(4.2)}, 7, memory=memory)
    (skip,) = demotion_skips(verdicts(memory, RULES))
    assert skip.sentence == (
        "skip b5: slow broker: demoted with a score of 7: a MiB/s takes 0.84% of a median broker, "
        "4.2 times the median of its peers (0.20%); nine times in ten at most 4.2"
    )
    silent = watched({**healthy(4), "b5": replace(HEALTHY, age_s=2000)}, 5)
    assert verdicts(silent, RULES)["b5"].detail == (
        "demoted with a score of 5: last heard of 2000 s ago, 1800 s are allowed"
    )
    many = watched({**healthy(9), **{f"b{n}": dear(4) for n in (6, 7, 8, 9)}}, 5)
    (skip,) = demotion_skips(verdicts(many, RULES))
    assert skip.sentence == (
        "skip cluster: too many slow: 4 brokers are slow at once (b6, b7, b8, b9), too many to be "
        "the fault of each; nobody is demoted: see what they share; b6 unfixable with a score of "
        "5: a MiB/s takes 0.80% of a median broker, 4.0 times the median of its peers (0.20%); "
        "no history yet"
    )


def test_of_very_many_only_some_are_named() -> None:
    many = watched({**healthy(20), **{f"b{n}": dear(4) for n in range(1, 8)}}, 5)
    (skip,) = demotion_skips(verdicts(many, RULES))
    assert "7 brokers are slow at once (b1, b2, b3, b4, b5 and others)" in skip.detail


def test_a_verdict_has_its_figures() -> None:
    memory = watched({**healthy(4), "b5": dear(4)}, 11)
    found: SlownessVerdict = verdicts(memory, RULES)["b5"]
    assert (found.score, found.is_drained) == (11, False)
    assert found.finding.cost == pytest.approx(0.5 / (62.5 * MIB))
    assert found.finding.peers_cost == pytest.approx(0.5 / (250 * MIB))
    assert found.finding.own_multiple == pytest.approx(4.0)


def test_where_the_detection_is_off_nothing_is_remembered_or_said() -> None:
    off = SlowRules(is_enabled=False)
    memory = watched({**healthy(4), "b5": dear(4)}, 9)
    assert verdicts(memory, off) == {}
    assert observe(memory, healthy(5), off) == SlowMemory()


rates = st.one_of(st.floats(0, 2e9), st.just(0.0))
samples_of_all = st.dictionaries(
    st.sampled_from([f"b{number}" for number in range(8)]),
    st.builds(SlownessSample, st.floats(0, 2), rates, st.floats(0, 1e6), st.floats(0.1, 8), rates),
    max_size=8,
)
keen_rules = st.builds(
    SlowRules,
    is_removing=st.booleans(),
    history_samples=st.integers(1, 5),
    min_samples=st.integers(1, 3),
    report_age_s=st.just(1e9),
    demoted_score=st.integers(1, 2),
    removed_score=st.integers(2, 4),
    max_ratio=st.floats(0, 0.5),
)


@given(st.lists(samples_of_all, max_size=8), keen_rules)
def test_scores_go_by_one_memory_is_bounded_and_the_few_are_acted_on(
    rounds: list[dict[str, SlownessSample]], rules: SlowRules
) -> None:
    memory = SlowMemory()
    for samples in rounds:
        before = {key: record.score for key, record in memory.brokers.items()}
        memory = observe(memory, samples, rules)
        assert set(samples) <= set(memory.brokers) <= {*samples, *before}
        for key, record in memory.brokers.items():
            step = record.score - before.get(key, 0)
            assert abs(step) == 1 or record.score in {0, rules.removed_score}
            assert (step > 0) <= record.finding.is_slow <= record.finding.is_judged
            assert 0 <= record.score <= rules.removed_score
            assert len(record.history) <= rules.history_samples
        row = memory.to_row()
        assert SlowMemory.recall(json.loads(json.dumps(row))) == memory
        found = verdicts(memory, rules)
        acted_on = [key for key, each in found.items() if not each.can_receive]
        assert len(acted_on) <= max(1, rules.max_ratio * len(found))
        assert len(acted_on) < len(found) or not acted_on
        assert all(rules.is_removing for each in found.values() if each.is_drained)
        assert bool(demotion_skips(found)) is any(
            each.score >= rules.demoted_score for each in found.values()
        )
    assert SlowMemory.recall(None) == SlowMemory()


@given(samples_of_all, st.floats(0.2, 5))
def test_the_order_of_the_input_and_the_unit_of_size_say_nothing(
    samples: dict[str, SlownessSample], factor: float
) -> None:
    turned = dict(reversed(samples.items()))
    assert observe(SlowMemory(), turned, RULES) == observe(SlowMemory(), samples, RULES)
    scaled = {
        key: replace(each, size_ratio=each.size_ratio * factor) for key, each in samples.items()
    }
    near = {
        key
        for key, each in findings(samples, {}, RULES).items()
        if each.multiple == pytest.approx(RULES.peers_times)
    }
    assert slow_now(scaled) - near == slow_now(samples) - near
