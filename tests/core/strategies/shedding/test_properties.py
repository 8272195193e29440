"""What holds for every strategy, whatever the cluster looks like."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Decision, Transfer, Unload
from broker_ctl.core.cluster.view import BrokerView, ClusterView, InFlight
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import (
    AvgRules,
    DifferenceRules,
    OverloadRules,
    SheddingRules,
    TransferRules,
    UniformRules,
)
from broker_ctl.core.strategies.shedding.policy import Measure, SheddingPolicy, SheddingSequence
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from tests.core.strategies.shedding.worlds import CYCLE_S, World, moved
from tests.support.clusters.views import BUNDLES, NOW_S, RING, broker, cluster, even_cluster, stats

EXCLUDED = Ring.even(Namespace("tenant", "excluded"), 4)
HEARTBEATS = Ring.even(Namespace("pulsar", "b0:8080"), 1)
ALL = (*BUNDLES, *EXCLUDED.bundles, *HEARTBEATS.bundles)
# Every strategy acts at once, and for little.
KEEN = SheddingRules(
    threshold_points=5,
    min_throughput_bytes=1,
    is_lower_boundary_enabled=True,
    excluded_namespaces=frozenset([EXCLUDED.namespace]),
    overload=OverloadRules(0.4),
    difference=DifferenceRules(max_ratio=0.5, min_msg_rate=1, min_throughput_bytes=1),
    uniform=UniformRules(msg_rate_percent=5, max_bundles=3),
    avg=AvgRules(low_points=3, high_points=10, low_hits=1, high_hits=1),
    transfer=TransferRules(target_std=0.02, hits=0, delay_s=0, max_brokers=2),
)
POLICIES: dict[str, SheddingPolicy[Any]] = {
    **SHEDDING.entries,
    "sequence": SheddingSequence(SHEDDING.entries),
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def one_each(low: int, high: int) -> st.SearchStrategy[list[int]]:
    """A number for each bundle."""
    return st.lists(st.integers(low, high), min_size=len(ALL), max_size=len(ALL))


# Made once: Hypothesis examines each strategy that it meets for the first time.
COUNTS = st.integers(1, 6)
OWNERS = {count: one_each(0, count - 1) for count in range(1, 7)}
SIZES = one_each(0, 120)
NUMBERS = one_each(1, 3)
BUSY = st.sets(st.sampled_from(ALL), max_size=3)
DRAINING = st.sampled_from([False] * 7 + [True])
AGES_S = st.sampled_from([0.0] * 7 + [9999.0])
UNLOADED_S = st.dictionaries(st.sampled_from(ALL), st.sampled_from([NOW_S - 1, NOW_S - 9999]))
SEEDS = st.integers(0, 2**64)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    count = draw(COUNTS)
    owners = draw(OWNERS[count])
    sizes = draw(SIZES)
    topics = draw(NUMBERS)
    lines: list[dict[Bundle, Any]] = [{} for _ in range(count)]
    for bundle, owner, size, number in zip(ALL, owners, sizes, topics, strict=True):
        lines[owner][bundle] = stats(size, topics=number)
    busy = draw(BUSY)
    return cluster(
        [
            broker(
                f"b{number}",
                sum(line.throughput for line in each.values()) / 1e9,
                each,
                is_draining=draw(DRAINING),
                age_s=draw(AGES_S),
            )
            for number, each in enumerate(lines)
        ],
        rings=[RING, EXCLUDED, HEARTBEATS],
        moves=[InFlight(b, f"b{owners[ALL.index(b)]}", "b0") for b in sorted(busy)[:1]],
        splitting=sorted(busy)[1:],
        unloaded_s=draw(UNLOADED_S),
        draw_seed=draw(SEEDS),
    )


def shed(
    policy: SheddingPolicy[Any], view: ClusterView, rules: SheddingRules = KEEN
) -> Sequence[Decision]:
    return policy.shed(view, policy.observe(policy.recall(None), view, rules), rules)


def actions(policy: SheddingPolicy[Any], view: ClusterView) -> list[Unload | Transfer]:
    return moved(shed(policy, view))


@every_policy
@given(view=clusters())
def test_bundles_that_must_stay_are_never_moved(
    policy: SheddingPolicy[Any], view: ClusterView
) -> None:
    for each in actions(policy, view):
        seen, source = view.bundles[each.bundle], view.brokers[each.source]
        assert not seen.is_pinned
        assert each.bundle.namespace != EXCLUDED.namespace
        assert not view.is_busy(each.bundle)
        assert seen.last_unloaded_s is None or seen.last_unloaded_s < NOW_S - 1800
        assert each.bundle in source.owned
        assert not source.is_draining
        assert source.age_s == 0
        if isinstance(each, Transfer):
            assert each.destination in view.receivers(KEEN.report_ttl_s, each.source)


@every_policy
@given(view=clusters())
def test_no_bundle_is_moved_twice_and_there_is_always_a_word(
    policy: SheddingPolicy[Any], view: ClusterView
) -> None:
    decisions = shed(policy, view)
    assert decisions
    assert all(decision.detail for decision in decisions)
    counts = Counter(each.bundle for each in moved(decisions))
    assert all(count == 1 for count in counts.values())


@every_policy
@given(view=clusters())
def test_the_same_view_gives_the_same_decisions_and_a_memory_that_can_be_written(
    policy: SheddingPolicy[Any], view: ClusterView
) -> None:
    memory = policy.recall(None)
    for number in range(3):
        now = replace(view, taken_at_s=view.taken_at_s + number * CYCLE_S)
        memory = policy.observe(memory, now, KEEN)
        recalled = policy.recall(json.loads(json.dumps(memory.to_row())))
        assert recalled == memory
        turned = replace(
            now, brokers={key: now.brokers[key] for key in reversed(list(now.brokers))}
        )
        expected = policy.shed(now, memory, KEEN)
        assert policy.shed(turned, recalled, KEEN) == expected


@every_policy
@given(usage=st.floats(0, 0.84), count=st.integers(2, 6))
def test_an_even_cluster_is_left_alone(
    policy: SheddingPolicy[Any], usage: float, count: int
) -> None:
    view = even_cluster({f"b{number}": usage for number in range(count)}, 4)
    assert actions(policy, view) == []


@given(clusters())
def test_uniform_never_unloads_more_than_the_part_of_the_difference(view: ClusterView) -> None:
    unloads = actions(SHEDDING.find("UniformLoadShedder"), view)
    if not unloads:
        return
    (source,) = {each.source for each in unloads}
    assert len(unloads) <= 3
    live = [broker for broker in view.brokers.values() if not broker.is_draining]
    excess = [
        (measure.of_broker(view, view.brokers[source]) - min(_traffic(view, live, measure))) / 2
        for measure in Measure
    ]
    gone = [
        sum(measure.of_bundle(view.bundles[each.bundle]) for each in unloads) for measure in Measure
    ]
    assert any(part <= most + 1e-6 for part, most in zip(gone, excess, strict=True))


def _traffic(view: ClusterView, brokers: list[BrokerView], measure: Measure) -> Iterator[float]:
    return (measure.of_broker(view, broker) for broker in brokers if broker.age_s == 0)


@given(clusters())
def test_avg_never_turns_a_pair_round(view: ClusterView) -> None:
    given_by: dict[tuple[str, str], float] = defaultdict(float)
    for each in actions(SHEDDING.find("AvgShedder"), view):
        assert isinstance(each, Transfer)
        given_by[each.source, each.destination] += view.bundles[each.bundle].load.short.msg_rate
    ends = [end for pair in given_by for end in pair]
    assert len(ends) == len(set(ends))
    for (source, destination), rate in given_by.items():
        hot, cool = view.brokers[source], view.brokers[destination]
        assert hot.expected.usage_ratio > cool.expected.usage_ratio
        difference = Measure.MSG_RATE.of_broker(view, hot) - Measure.MSG_RATE.of_broker(view, cool)
        assert rate <= difference / 2 + 1e-6


@given(clusters())
def test_transfer_has_no_more_givers_than_allowed_and_leaves_each_a_bundle(
    view: ClusterView,
) -> None:
    moves = actions(SHEDDING.find("TransferShedder"), view)
    there = [each for each in moves if "in exchange" not in each.detail]
    assert len({each.source for each in there}) <= 2
    for source, count in Counter(each.source for each in there).items():
        assert count < len(view.brokers[source].owned)
    # Whether or not something comes back, the pair ends closer than it was.
    for source, destination in {
        (each.source, each.destination) for each in there if isinstance(each, Transfer)
    }:
        net = sum(
            view.bundles[each.bundle].load_vector.throughput_bytes
            * (1 if each.source == source else -1)
            for each in moves
            if isinstance(each, Transfer)
            and {each.source, each.destination} == {source, destination}
        )
        hot, cool = (view.brokers[end].expected.throughput_bytes for end in (source, destination))
        assert max(hot - net, cool + net) < max(hot, cool)


@every_policy
@settings(max_examples=8)
@given(sizes=st.lists(st.lists(st.integers(5, 60), max_size=8), min_size=2, max_size=4).filter(any))
def test_in_a_closed_loop_it_comes_to_rest_and_nothing_is_worse(
    policy: SheddingPolicy[Any], sizes: list[list[float]]
) -> None:
    rules = replace(KEEN, grace_s=0, transfer=replace(KEEN.transfer, delay_s=180, hits=3))
    world = World.of(policy, {f"b{n}": each for n, each in enumerate(sizes)}, rules)
    before, quiet = world.imbalance, 0
    for _ in range(300):
        quiet = 0 if world.cycle() else quiet + 1
        # A moving average needs half an hour to come within rounding of what it averages.
        if quiet == 40:
            break
    assert quiet == 40
    assert world.imbalance <= before + 1e-9
