"""Several strategies in order."""

import json
from dataclasses import replace

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.avg import AvgShedder
from broker_ctl.core.strategies.shedding.policy import SequenceMemory, SheddingSequence
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder, ThresholdShedder
from tests.core.strategies.shedding.worlds import World, moved, skips
from tests.support.clusters.views import even_cluster

RULES = SheddingRules()
BOTH = SheddingSequence({"ThresholdShedder": ThresholdShedder(), "AvgShedder": AvgShedder()})
BLIND = {f"b{n}": 0.5 for n in range(1, 6)} | {"b6": 0.0}


def watched(view: ClusterView, cycles: int) -> SequenceMemory:
    memory = BOTH.recall(None)
    for _ in range(cycles):
        memory = BOTH.observe(memory, view, RULES)
    return memory


def test_the_first_that_wants_something_has_the_cycle() -> None:
    view = even_cluster({"b1": 0.9, "b2": 0.1}, 16)
    memory = watched(view, 2)
    decisions = BOTH.shed(view, memory, RULES)
    threshold = ThresholdShedder()
    alone = threshold.shed(view, threshold.observe(threshold.recall(None), view, RULES), RULES)
    assert moved(decisions)
    assert decisions == alone


def test_where_the_first_is_blind_the_next_is_asked() -> None:
    view = even_cluster(BLIND, 16)
    rules = replace(RULES, min_throughput_bytes=1.0)
    assert not moved(BOTH.shed(view, watched(view, 1), rules))
    decisions = BOTH.shed(view, watched(view, 2), rules)
    assert {each.reason for each in moved(decisions)} == {Reason.OVERLOADED}
    assert not skips(decisions)


def test_where_none_wants_anything_each_says_why_and_none_twice() -> None:
    view = even_cluster(BLIND | {"b7": 0.5}, 16)
    stale = replace(view, brokers={**view.brokers, "b7": replace(view.brokers["b7"], age_s=9999.0)})
    reasons = [skip.reason for skip in skips(BOTH.shed(stale, watched(stale, 1), RULES))]
    assert reasons == [Reason.STALE_REPORT, Reason.BELOW_THRESHOLD, Reason.HIT_COUNT]


def test_all_observe_also_while_another_acts() -> None:
    memory = watched(even_cluster({"b1": 0.9, "b2": 0.7}, 16), 3)
    assert memory.to_row()["memories"] == {
        "ThresholdShedder": {"history": {"b1": 0.9, "b2": 0.7}},
        "AvgShedder": {"low_hits": {"b1": 3, "b2": 3}, "high_hits": {}, "firing": []},
    }


def test_the_memory_survives_a_row_of_json_and_a_change_of_the_list() -> None:
    memory = watched(even_cluster({"b1": 0.9, "b2": 0.7}, 16), 3)
    row = json.loads(json.dumps(memory.to_row()))
    assert BOTH.recall(row) == memory
    other = SheddingSequence({"OverloadShedder": OverloadShedder(), "AvgShedder": AvgShedder()})
    assert other.recall(row).to_row()["memories"] == {
        "OverloadShedder": {},
        "AvgShedder": memory.memories["AvgShedder"].to_row(),
    }


def test_in_a_closed_loop_two_go_further_than_one() -> None:
    start = {f"b{n}": [50.0] * 10 for n in range(1, 6)} | {"b6": []}
    one, both = (World.of(policy, start) for policy in (ThresholdShedder(), BOTH))
    counts = [(len(one.cycle()), len(both.cycle())) for _ in range(40)]
    assert sum(count for count, _ in counts) == 0
    assert sum(count for _, count in counts) > 0
    assert both.imbalance < one.imbalance
    assert counts[-10:] == [(0, 0)] * 10
