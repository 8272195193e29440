"""The pairs of shedding and placement that a planner is measured against."""

from dataclasses import replace

from broker_ctl.core.rules.leader_rules import PlacementRules, SheddingRules, SplitRules
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.replay.replay import POLICIES, ReplayCourse, replay
from tests.support.pipeline.small_scenarios import small

PAIRS = {
    "overload": ("OverloadShedder", "LeastLongTermMessageRate", 0),
    "threshold": ("ThresholdShedder", "LeastResourceUsageWithWeight", 0),
    "uniform": ("UniformLoadShedder", "LeastLongTermMessageRate", 0),
    "avg": ("AvgShedder", "AvgShedder", 0),
    "transfer": ("TransferShedder", "LeastResourceUsageWithWeight", 3),
}


def test_each_shedder_has_the_placement_and_the_hits_of_its_load_manager() -> None:
    for name, (shedding, placement, hit_count) in PAIRS.items():
        rules = POLICIES[name]().rules
        assert rules.shedding is SHEDDING.find(shedding)
        assert rules.placement is PLACEMENT.find(placement)
        assert rules.splitting == SplitRules(hit_count=hit_count)


def test_they_have_the_defaults_of_pulsar_and_merge_nothing() -> None:
    for name in PAIRS:
        contestant = POLICIES[name]()
        assert contestant.rules.shedding_rules == SheddingRules()
        assert contestant.rules.placement_rules == PlacementRules(is_spread_evenly=True)
        assert contestant.rules.merging is None
        assert contestant.pace.cycles_per_minute == 1


def test_avg5_has_the_defaults_of_pulsar_5() -> None:
    before, after = POLICIES["avg"](), POLICIES["avg5"]()
    assert after.bundles_per_namespace == 32
    assert after.rules.shedding_rules.difference.max_ratio == 0.5
    assert not after.rules.placement_rules.is_spread_evenly
    assert (
        replace(
            after.rules,
            shedding_rules=before.rules.shedding_rules,
            placement_rules=before.rules.placement_rules,
        )
        == before.rules
    )


def test_a_replay_begins_with_as_many_bundles_as_its_baseline_wants() -> None:
    scenario = small((1.0,) * 5, ("a", "b", "a", "b", "a"), minutes=2, brokers=("a", "b"))
    baseline = POLICIES["avg5"]()
    course = ReplayCourse(
        scenario,
        baseline.rules,
        baseline.pace,
        bundles_per_namespace=baseline.bundles_per_namespace,
    )
    assert len(course.cluster.subranges) == 32
    course.replay_minute(0)
    assert course.record.offered_bytes == replay(scenario, baseline.rules).offered_bytes[:1]


def test_nothing_limits_how_much_moves_at_once() -> None:
    # A hundred bundles of one broker; far more than a quarter of them moves in one cycle.
    scenario = small((1.0,) * 100, ("a",) * 100, minutes=2, brokers=("a", "b"))
    contestant = POLICIES["threshold"]()
    moves = replay(scenario, contestant.rules, contestant.pace).moves
    assert {move.minute for move in moves} == {1}
    assert len(moves) > 40


def test_the_balance_baseline_has_the_default_rules_of_a_daemon() -> None:
    contest, daemon = POLICIES["balance"]().rules, leader_rules(Settings())
    assert contest.placement is daemon.placement
    assert contest.shedding is daemon.shedding
    assert contest.splitting == daemon.splitting
    assert contest.merging == daemon.merging
    assert contest.shedding_rules == daemon.shedding_rules
    assert contest.placement_rules == daemon.placement_rules
    assert contest.budgets == daemon.budgets
