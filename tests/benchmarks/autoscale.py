"""Replay fourteen days with as many brokers as the leader advises, beside the number for the peak.

The traffic is that of the scenario `diurnal`, times a day of one region: at night a third of what
there is at noon, on two days of seven four fifths. Brokers come and go as the chart's autoscaling
has them (deploy/helm): the advice of each minute is what `broker_ctl_recommended_brokers` shows,
with one broker that may be lost; what is missing is ordered at once and is there two minutes later;
a broker is drained and goes once the highest advice of half an hour is lower, one in ten minutes.
Within a tenth of the number nothing is done, as Kubernetes does. Beside it the number that the
fullest hour of all fourteen days needs is there all the time. It prints for both:

broker_hours        that were paid for, from the order of a broker to its end
p99_max_over_mean   of usage, minute by minute; broker_min_over_85: minutes of brokers above 85 %
short_hours         hours in which the load was more than the brokers that serve may carry
moved_pct_per_h     of all load that was carried
broker_hours_ratio  those of the first over those of the second

Examples:
  python tests/benchmarks/autoscale.py
  python tests/benchmarks/autoscale.py --days 3 --brokers 10 --json
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.planning.size import SizeRules, needed_brokers
from broker_ctl.core.rules.leader_rules import BalanceRules
from broker_ctl.simulation.model.scenario import Scenario, ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.replay.cluster import after_warm_up
from broker_ctl.simulation.replay.replay import POLICIES, replay
from broker_ctl.simulation.scenarios import scenario

_DAY_MIN: Final = 1440
_WEEK: Final = 7
_NIGHT: Final = 1 / 3
_WEEKEND: Final = 0.8
_START_MIN: Final = 2
_DRAIN_MIN: Final = 3
_WINDOW_MIN: Final = 30
_EVERY_MIN: Final = 10
_TOLERANCE: Final = 0.1
_FULL: Final = 0.85


def main() -> int:
    # Run as a script: the tests are found from here.
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.benchmarks.machine.load import with_machine_load

    given = _options()
    found = with_machine_load(lambda: _measured(given.days, given.brokers))
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        for name in ("advised", "peak"):
            sys.stdout.write(f"{name:8} {found[name]}\n")
        sys.stdout.write(f"broker_hours_ratio {found['broker_hours_ratio']:.3f}\n")
    return 0


def _measured(days: int, brokers: int) -> dict[str, Any]:
    made = one_region(scenario("diurnal", brokers=brokers, hours=24 * days))
    rules = SizeRules.of(BalanceRules())
    load = filled_brokers(made)
    hours = load[: len(load) // 60 * 60].reshape(-1, 60).mean(axis=1)
    peak = needed_brokers(float(hours.max()), rules).recommended
    advised = [needed_brokers(float(each), rules).recommended for each in load]
    rows = {
        "advised": _row(made, follow(advised, peak), load, rules),
        "peak": _row(made, [peak] * len(load), load, rules),
    }
    ratio = rows["advised"]["broker_hours"] / rows["peak"]["broker_hours"]
    return {"days": days, "peak_brokers": peak, **rows, "broker_hours_ratio": ratio}


def one_region(made: Scenario) -> Scenario:
    """The traffic of a scenario, times a day and a week of one region."""
    minutes = np.arange(made.traffic.minutes)
    noon = 0.5 - 0.5 * np.cos(2 * math.pi * minutes / _DAY_MIN)
    weekend = np.where(minutes // _DAY_MIN % _WEEK >= _WEEK - 2, _WEEKEND, 1.0)
    level = ((_NIGHT + (1 - _NIGHT) * noon) * weekend).astype(np.float32)[:, np.newaxis]
    traffic = replace(
        made.traffic,
        msg_rate_in=made.traffic.msg_rate_in * level,
        msg_rate_out=made.traffic.msg_rate_out * level,
        bytes_in=made.traffic.bytes_in * level,
        bytes_out=made.traffic.bytes_out * level,
    )
    return replace(made, traffic=traffic)


def filled_brokers(made: Scenario) -> Floats:
    """By minute, how many mean brokers the load fills in its tightest resource."""
    traffic, capacities = made.traffic, list(made.brokers.values())
    rates = (traffic.msg_rate_in + traffic.msg_rate_out).sum(axis=1, dtype=np.float64)
    octets = (traffic.bytes_in + traffic.bytes_out).sum(axis=1, dtype=np.float64)
    mean_rate = sum(each.msg_rate for each in capacities) / len(capacities)
    mean_octets = sum(each.bytes_s for each in capacities) / len(capacities)
    found: Floats = np.maximum(rates / mean_rate, octets / mean_octets)
    return found


def follow(advised: Sequence[int], most: int) -> list[int]:
    """The number of brokers that is ordered, by minute, as the chart's autoscaler does it.

    The advice is of the minute before; the first one is there from the start.
    """
    ordered, current, went = [], min(advised[0], most), -_EVERY_MIN
    for minute in range(len(advised)):
        window = advised[max(0, minute - _WINDOW_MIN) : max(1, minute)]
        now, highest = min(window[-1], most), min(max(window), most)
        if now > current * (1 + _TOLERANCE):
            current = min(now, 2 * current)
        elif highest < current * (1 - _TOLERANCE) and minute - went >= _EVERY_MIN:
            current, went = current - 1, minute
        ordered.append(current)
    return ordered


@dataclass(frozen=True, slots=True)
class _Course:
    """Brokers that come and go.

    Attributes:
        serving: how many take load, by minute.
    """

    scenario: Scenario
    serving: Floats


def _course(made: Scenario, ordered: Sequence[int]) -> _Course:
    """As a StatefulSet does it: the last one to come goes first."""
    ids = sorted(made.brokers, key=lambda name: int(name.rpartition("-")[2]))
    events: list[ScenarioEvent] = []
    serving = np.zeros(len(ordered))
    up, before = [0] * len(ids), ordered[0]
    for minute, count in enumerate(ordered):
        for number in range(before, count):
            up[number] = minute + _START_MIN
            events.append(ScenarioEvent(up[number], ids[number], ScenarioEventKind.UP))
        for number in reversed(range(count, before)):
            gone = max(minute, up[number]) + _DRAIN_MIN
            drain = ScenarioEvent(gone - _DRAIN_MIN, ids[number], ScenarioEventKind.DRAIN)
            events += [drain, ScenarioEvent(gone, ids[number], ScenarioEventKind.DOWN)]
        serving[minute] = sum(up[number] <= minute for number in range(count))
        before = count
    there = ids[: ordered[0]]
    owners = tuple(
        owner if owner in there else there[number % len(there)]
        for number, owner in enumerate(made.owners)
    )
    events.sort(key=lambda event: event.minute)
    changed = replace(
        made, absent=frozenset(ids[ordered[0] :]), owners=owners, events=tuple(events)
    )
    return _Course(changed, serving)


def _row(made: Scenario, ordered: Sequence[int], load: Floats, rules: SizeRules) -> dict[str, Any]:
    course = _course(made, ordered)
    policy = POLICIES["balance"]()
    record = replay(course.scenario, policy.rules, policy.pace)
    # A broker that goes is paid for until it is drained.
    leaving = sum(max(0, old - new) for old, new in pairwise(ordered))
    usage = record.usage[~np.isnan(record.usage)]
    may_carry = course.serving * rules.limit_ratio / rules.imbalance
    short = (load > may_carry)[: len(load) // 60 * 60].reshape(-1, 60).mean(axis=1) > 0.5
    moved = sum(move.bytes_s for move in record.moves)
    hours = len(load) / 60
    return {
        "broker_hours": round((sum(ordered) + leaving * _DRAIN_MIN) / 60, 1),
        "least_brokers": min(ordered),
        "most_brokers": max(ordered),
        "p99_max_over_mean": round(
            float(np.percentile(after_warm_up(record.max_over_mean), 99)), 4
        ),
        "broker_min_over_85": int((usage > _FULL).sum()),
        "short_hours": int(short.sum()),
        "moved_pct_per_h": round(100 * moved / float(record.offered_bytes.mean()) / hours, 1),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="autoscale.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--days", type=int, default=14, help="days of traffic (14)")
    parser.add_argument("--brokers", type=int, default=20, help="brokers there may be (20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
