"""The live benchmark in short: what the leader did, by the owner nodes. No time is measured."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, Namespace
from broker_ctl.errors import SettingsError
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import unit_of
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.scenarios import scenario
from tests.benchmarks.live.cluster import Cluster, Wanted, cluster_of, cut
from tests.benchmarks.live.tempo import INTERVALS, paced
from tests.benchmarks.live.watching import Run, Seen, replay_of
from tests.support.pipeline.small_scenarios import NAMESPACE, bundles_of, small
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

BROKERS: Final = 2
MINUTES: Final = 60
# So even the brokers are at the end, if the planner has any say; they begin with three to one.
EVEN: Final = 1.2
LEFT, RIGHT = bundles_of(2)


def crowded() -> Scenario:
    """Of each four bundles the first broker has three."""
    found = cut(scenario("diurnal", brokers=BROKERS), MINUTES)
    first, second = found.brokers
    owners = tuple(second if place % 4 == 0 else first for place in range(len(found.owners)))
    return replace(found, owners=owners)


def covers_all_rings(played: Scenario, owned: list[Bundle]) -> bool:
    """Each position has one owner, and no two."""
    ends: dict[Namespace, int] = {bundle.namespace: RING_LOW for bundle in played.traffic.bundles}
    for bundle in sorted(owned):
        if ends[bundle.namespace] != bundle.range.low:
            return False
        ends[bundle.namespace] = bundle.range.high
    return set(ends.values()) == {RING_HIGH}


@pytest.mark.slow
async def test_daemons_bring_a_crowded_cluster_to_evenness_by_moves_of_the_planner(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    played = crowded()
    wanted = Wanted("diurnal", 0, BROKERS, MINUTES, lead_s=0.0)
    async with cluster_of(wanted, played, zookeeper.connect_string, chroot, tmp_path) as cluster:
        run = Run(played, cluster.origin_s, wanted.minute_s, cluster.broker_ids)
        start = len(cluster.watch.story)

        def imbalance() -> float:
            """By the owners of now, in the minute with which the scenario begins."""
            of_now = [Seen(0.0, *each) for each in cluster.watch.now.items()]
            one_minute = replace(run, scenario=cut(played, 1), origin_s=1.0)
            return float(replay_of(one_minute, of_now).max_over_mean[0])

        assert imbalance() > EVEN
        await cluster.balance(is_on=True)
        await eventually(lambda: imbalance() < EVEN, deadline_s=60.0, poll_s=0.5)
        await cluster.balance(is_on=False)
        await eventually(lambda: covers_all_rings(played, list(cluster.watch.owned)))
        assert set(cluster.watch.owned.values()) == set(cluster.broker_ids)
        origin_s = cluster.watch.story[start].at_s
        moves = replay_of(replace(run, origin_s=origin_s), cluster.watch.story).moves
        assert moves
        done = {(str(move.bundle), move.source, move.destination) for move in moves}
        await eventually(lambda: _are_done(cluster, done))


async def _are_done(cluster: Cluster, done: set[tuple[str, str, str]]) -> bool:
    """Whether the leader has decided on each of these moves, for balance, and knows its end."""
    rows = [row for row in await cluster.transfers() if row["result"] == "done"]
    # A minute of the scenario is played in a second, so that what grows within it is a surge.
    planned = {Reason.IMBALANCE, Reason.NEW_PART, Reason.SURGE}
    assert {row["reason"] for row in rows} <= planned
    return done <= {(row["bundle"], row["source"], row["destination"]) for row in rows}


def test_the_load_of_a_minute_is_that_of_its_owners_for_as_long_as_they_were() -> None:
    played = small([60, 20], ["a", "a"], minutes=2)
    run = Run(played, 100.0, 1.0, ("host-a", "host-b"))
    story = [
        Seen(80.0, NAMESPACE, {LEFT: "host-b", RIGHT: "host-a"}),
        Seen(90.0, NAMESPACE, {LEFT: "host-a", RIGHT: "host-a"}),
        Seen(100.25, NAMESPACE, {LEFT: "host-a"}),
        Seen(100.5, NAMESPACE, {LEFT: "host-a", RIGHT: "host-b"}),
    ]
    found = replay_of(run, story)
    assert found.usage.ravel() == pytest.approx([0.6 + 0.25 * 0.2, 0.5 * 0.2, 0.6, 0.2])
    (move,) = found.moves
    assert (move.minute, move.bundle, move.source, move.destination) == (
        0,
        RIGHT,
        "host-a",
        "host-b",
    )
    assert move.bytes_s == pytest.approx(20e6)


def test_a_split_or_merged_bundle_has_moved_only_if_its_owner_changed() -> None:
    played = small([60, 20], ["a", "a"], minutes=1)
    run = Run(played, 100.0, 1.0, ("host-a", "host-b"))
    low, high = LEFT.cut((LEFT.range.high // 2,))
    story = [
        Seen(90.0, NAMESPACE, {LEFT: "host-a", RIGHT: "host-b"}),
        Seen(100.1, NAMESPACE, {low: "host-a", high: "host-a", RIGHT: "host-b"}),
        Seen(100.2, NAMESPACE, {low: "host-a", RIGHT: "host-b"}),
        Seen(100.3, NAMESPACE, {low: "host-a", high: "host-b", RIGHT: "host-b"}),
        Seen(100.4, NAMESPACE, {LEFT: "host-b", RIGHT: "host-b"}),
    ]
    (move,) = replay_of(run, story).moves
    assert (move.bundle, move.source, move.destination) == (high, "host-a", "host-b")
    assert move.bytes_s == pytest.approx(30e6)


def test_a_trace_minute_a_second_makes_all_intervals_a_sixtieth() -> None:
    texts = paced(Settings(), 1.0)
    assert texts["simulatedMinuteSeconds"] == "1"
    assert texts["statsUpdateFrequencyInSecs"] == "1"
    assert texts["loadBalancerReportUpdateMinIntervalMillis"] == "83"
    assert float(texts["loadBalancerSheddingIntervalMinutes"]) == pytest.approx(1 / 60, rel=1e-5)
    assert texts["loadBalancerPlannerSteadySeconds"] == "20"
    assert texts["loadBalancerMaxLoadMovedPerHourPercentage"] == "6000"
    assert texts["loadBalancerPlannerChurnPercentagePerHour"] == "100"


def test_no_interval_of_balancing_is_forgotten() -> None:
    subjects = {
        "load_report",
        "balancing",
        "shedding",
        "shedders",
        "placement",
        "planner",
        "splitting",
    }
    intervals = {
        key
        for key, declaration in DECLARATIONS.items()
        if declaration.subject in subjects and unit_of(declaration.name) in {"ms", "s", "minutes"}
    }
    # It has none by default: each report is a sample. The other is a rate.
    others = {"loadBalancerAverageSampleSeconds", "loadBalancerMaxPlacementsPerSecondOfLostBrokers"}
    assert intervals - others == set(INTERVALS)


@pytest.mark.parametrize("name", ["scale-out", "mixed-hardware", "rolling-restart"])
def test_a_scenario_with_unequal_or_leaving_brokers_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        cut(scenario(name, brokers=4), 600)
