"""A simulated leader's cycles become the rows that a daemon's leader writes."""

from collections import Counter
from dataclasses import replace

from broker_ctl.core.history.cycle_rows import NOTHING_REPORTED, rows_of_view
from broker_ctl.core.history.rows import BundleLoadRow
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder
from broker_ctl.simulation.model.scenario import ReplayPace
from broker_ctl.simulation.replay.replay import UNLIMITED, ReplayCourse, ReplayCycle
from tests.support.pipeline.small_scenarios import MB, bundles_of, small

RULES = replace(
    CycleRules(LeastLongTermMessageRate(), budgets=UNLIMITED), shedding=OverloadShedder()
)


def test_each_cycle_of_a_replay_has_one_row_for_each_bundle() -> None:
    scenario = small((40.0, 30.0, 20.0, 10.0), ("a", "a", "a", "a"), minutes=4)
    reported, rows = NOTHING_REPORTED, dict[int, list[BundleLoadRow]]()
    kinds: list[Counter[str]] = []

    def watch(cycle: ReplayCycle) -> None:
        nonlocal reported
        seen = rows_of_view(reported, cycle.view)
        count: Counter[str] = Counter()
        while True:
            try:
                batch = next(seen)
            except StopIteration as stop:
                reported = stop.value
                break
            count[batch.kind.name] += len(batch.rows)
            if batch.kind.name == "bundle_loads":
                rows.setdefault(len(kinds), []).extend(batch.rows)
        kinds.append(count)

    course = ReplayCourse(scenario, RULES, ReplayPace(), watch)
    for minute in range(scenario.traffic.minutes):
        course.replay_minute(minute)
    texts = [str(bundle) for bundle in bundles_of(4)]
    assert [[row.bundle for row in each] for each in rows.values()] == [texts] * len(kinds)
    first, second = rows[0], rows[1]
    assert [row.owner for row in first] == ["a", "a", "a", "a"]
    assert [row.bytes_in for row in first] == [20 * MB, 15 * MB, 10 * MB, 5 * MB]
    # The heaviest has moved, and its new owner has reported it.
    assert [row.owner for row in second] == ["b", "a", "a", "a"]
    assert kinds[0] == {
        "broker_loads": 2,
        "capacities": 2,
        "bundle_boundaries": 1,
        "bundle_loads": 4,
    }
    assert kinds[1] == {"broker_loads": 2, "bundle_loads": 4}
