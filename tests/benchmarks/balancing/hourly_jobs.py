"""Measure what it saves to plan for bursts that come back every hour.

Replays ``steady-skew`` with jobs in the first ten minutes of every hour, with and without the
recognition of such bursts, which takes two to three repetitions. It starts no server. It prints:

runs                 by seed and kind of jobs: many (three in ten bundles, four times their
                     traffic) and few (one in ten, eight times):
  p99                99th percentile of the largest usage of a broker over the mean usage
  later_p99          the same from the fourth hour on
  moved              percent of all load an hour
  later_moved        the same from the fourth hour on
median_later_ratio   median of later_moved with the recognition over that without it
peak_rss_mb          memory of the process
"""

import argparse
import gc
import resource
import sys
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from broker_ctl.simulation.model.scenario import Scenario

_JOBS: Final = {"many": (0.3, 4.0), "few": (0.1, 8.0)}
_JOB_MIN: Final = 10
_HOUR_MIN: Final = 60
_LATER_HOUR: Final = 3
# A replay makes millions of small values and hardly ever a cycle.
_GARBAGE_AT: Final = 200_000


def main() -> None:
    """Measure and print."""
    from broker_ctl.cli.runtime.output import print_table
    from broker_ctl.codec import encode
    from tests.benchmarks.machine.load import with_machine_load

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--seeds", type=int, default=4, help="number of seeds (4)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--kind", choices=_JOBS, action="append", help="only these jobs")
    parser.add_argument("--hours", type=int, default=8, help="length of a replay (8)")
    arguments = parser.parse_args()
    gc.set_threshold(_GARBAGE_AT)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    found = with_machine_load(lambda: run(seeds, arguments.kind or _JOBS, arguments.hours))
    if arguments.json:
        sys.stdout.write(encode(found).decode() + "\n")
        return
    for name, row in found["runs"].items():
        print_table(name, ("figure", "value"), list(row.items()))
    sys.stdout.write(f"median_later_ratio {found['median_later_ratio']}\n")


def run(seeds: range, kinds: Iterable[str], hours: int) -> dict[str, Any]:
    """The object."""
    runs = {f"{kind} {seed}": compared(kind, seed, hours) for seed in seeds for kind in kinds}
    ratios = [
        row["later_moved"] / row["later_moved_without"]
        for row in runs.values()
        if row["later_moved_without"]
    ]
    return {
        "runs": runs,
        "median_later_ratio": median(ratios) if ratios else None,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def compared(kind: str, seed: int, hours: int) -> dict[str, float]:
    """One scenario, with the recognition of bursts and without it."""
    scenario = with_jobs(kind, seed, hours)
    without = {
        f"{name}_without": value for name, value in replayed(scenario, is_enabled=False).items()
    }
    return {**replayed(scenario, is_enabled=True), **without}


def with_jobs(kind: str, seed: int, hours: int) -> "Scenario":
    """``steady-skew`` in which some bundles have a multiple of their traffic as jobs run."""
    from dataclasses import replace

    import numpy as np

    from broker_ctl.simulation.scenarios import scenario

    part, times = _JOBS[kind]
    base = scenario("steady-skew", hours=hours, seed=seed)
    traffic = base.traffic
    has_job = np.random.default_rng(seed).random(len(traffic.bundles)) < part
    is_time = np.arange(traffic.minutes) % _HOUR_MIN < _JOB_MIN
    factor = np.where(is_time[:, None] & has_job[None], times, 1.0).astype(np.float32)
    names = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
    rates = {name: getattr(traffic, name) * factor for name in names}
    return replace(base, traffic=replace(traffic, **rates))


def replayed(scenario: "Scenario", *, is_enabled: bool) -> dict[str, float]:
    """The figures of one replay."""
    from dataclasses import replace

    import numpy as np

    from broker_ctl.core.rules.leader_rules import BurstRules
    from broker_ctl.simulation.replay.replay import POLICIES, replay
    from broker_ctl.simulation.replay.scores import scores_of

    usual = POLICIES["balance"]()
    shedding = usual.rules.shedding_rules
    balance = replace(shedding.balance, bursts=BurstRules(is_enabled=is_enabled))
    rules = replace(usual.rules, shedding_rules=replace(shedding, balance=balance))
    done = replay(scenario, rules, usual.pace)
    first, minutes = _LATER_HOUR * _HOUR_MIN, scenario.traffic.minutes
    moved = sum(
        each.bytes_s / done.offered_bytes[each.minute]
        for each in done.moves
        if each.minute >= first
    )
    usage = np.array(done.usage)[first:]
    scores = scores_of(done)
    return {
        "p99": float(scores.p99),
        "later_p99": float(np.percentile(usage.max(axis=1) / usage.mean(axis=1), 99)),
        "moved": float(scores.load_moved_pct_per_h),
        "later_moved": 100 * float(moved) * _HOUR_MIN / (minutes - first),
    }


if __name__ == "__main__":
    main()
