"""What the report foretells of another cluster, held against what a replay of it finds.

    python -m tests.pipeline.report.what_if_truth --scenario diurnal --brokers 10

Day one of a scenario gives the profile, the owners and what was measured. On day two a broker is
lost, or one comes, or the tenant that carries most carries twice as much; the first hour of it is
left out: what is foretold is what comes after a change, not the change. Prints one JSON object:
of each case the foretold and the replayed p99 of the largest over the mean usage, and by how many
points (hundredths) the one misses the other. The exit code is 1 where it is more than 2.
"""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any, Final

import numpy as np

from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.pipeline.report.prediction import Circumstance, predict
from broker_ctl.simulation.model.scenario import Scenario, ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.next_day import DAY_MIN, profile_of
from broker_ctl.simulation.replay.replay import POLICIES, Baseline, ReplayCourse
from broker_ctl.simulation.scenarios import scenario

NEWCOMER: Final = "broker-new"
MOST_POINTS: Final = 2.0
_SETTLED_MIN: Final = 60


def with_newcomer(known: Scenario) -> Scenario:
    """A broker more, which is not there yet."""
    capacity = next(iter(known.brokers.values()))
    absent = known.absent | {NEWCOMER}
    return replace(known, brokers={**known.brokers, NEWCOMER: capacity}, absent=absent)


def held_against(known: Scenario, ours: Baseline) -> dict[str, Any]:
    """Each case: foretold, replayed, points."""
    course = ReplayCourse(with_newcomer(known), ours.rules, ours.pace)
    for minute in range(DAY_MIN):
        course.replay_minute(minute)
    today, lost, twice = circumstance(course)
    measured = p99_of(course, 0)
    as_it_is = predict(today).p99
    cases = {
        "as it is": today,
        "a broker less": today.without([lost]),
        "a broker more": today.with_more(1),
        "tenant twice": today.times(np.where(twice, 2.0, 1.0)),
    }
    rows = {}
    for name, case in cases.items():
        found = predict(case).p99 + measured - as_it_is
        truth = replayed(course, ours.rules, name)
        rows[name] = {
            "foretold": found,
            "replayed": truth,
            "points": abs(found - truth) * 100,
        }
    return {"measured": measured, "profile_alone": as_it_is, "cases": rows}


def circumstance(course: ReplayCourse) -> tuple[Circumstance, int, Any]:
    """The cluster as its history would show it; the last broker; whose bundles are doubled."""
    cluster = course.cluster
    present = cluster.present
    capacities = np.array([each.capacity.bytes_s for each in present])
    numbers = {each.number: place for place, each in enumerate(present)}
    owner = np.array([numbers.get(each, -1) for each in cluster.owners.tolist()], np.int32)
    load = profile_of(course) / capacities.mean()
    return (
        Circumstance(load, owner, capacities / capacities.mean()),
        len(present) - 1,
        twice(course),
    )


def twice(course: ReplayCourse) -> Any:
    """Whether each bundle is of the tenant that carries most."""
    tenants = np.array([each.bundle.namespace.tenant for each in course.cluster.subranges])
    carried = profile_of(course).sum(axis=1)
    most = max(set(tenants.tolist()), key=lambda each: float(carried[tenants == each].sum()))
    return tenants == most


def replayed(course: ReplayCourse, rules: CycleRules, case: str) -> float:
    """P99 of day two, from the second hour on."""
    other = course.fork(rules)
    minutes = min(2 * DAY_MIN, other.cluster._series.shape[0])
    match case:
        case "a broker less":
            last = other.cluster.present[-1].broker_id
            other._apply_event(ScenarioEvent(DAY_MIN, last, ScenarioEventKind.DOWN))
        case "a broker more":
            other._apply_event(ScenarioEvent(DAY_MIN, NEWCOMER, ScenarioEventKind.UP))
        case "tenant twice":
            origins = np.unique(
                [
                    piece.origin
                    for parcel, is_it in zip(other.cluster.subranges, twice(course), strict=True)
                    if is_it
                    for piece in parcel.pieces
                ]
            )
            other.cluster._series[DAY_MIN:, :, origins] *= 2
    for minute in range(DAY_MIN, minutes):
        other.replay_minute(minute)
    return p99_of(other, DAY_MIN)


def p99_of(course: ReplayCourse, start: int) -> float:
    """From an hour after the start."""
    usage = np.array(course.record.usage[start + _SETTLED_MIN :])
    ratios = np.nanmax(usage, axis=1) / np.nanmean(usage, axis=1)
    return float(np.percentile(ratios, 99))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", action="append")
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--hours", type=int, default=48)
    arguments = parser.parse_args()
    found = {}
    for name in arguments.scenario or ["diurnal"]:
        known = scenario(name, brokers=arguments.brokers, hours=arguments.hours)
        found[name] = held_against(known, POLICIES["balance"]())
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    worst = max(case["points"] for each in found.values() for case in each["cases"].values())
    sys.exit(int(worst > MOST_POINTS))


if __name__ == "__main__":
    main()
