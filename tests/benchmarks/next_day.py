"""Compare a placement plan from the profile of day one, applied to day two, with `balance` alone.

Replays scenarios of 48 hours under the default rules of a daemon: day one once, day two with the
plan and without it. It starts no server. It prints:

scenarios     by name, each figure with the plan (_plan) and without it (_reactive):
  p99         99th percentile of the largest usage of a broker over the mean usage
  load_moved  percent of all load an hour, without what drains, deaths and refills move, and
              without the first moves of the plan
  moves       number of moves
  forced      percent of all load an hour that drains, deaths and refills move
  load_moved_ratio    load_moved_plan over load_moved_reactive (null: nothing moved without it)
  relocated_ratio     share of all load that the plan moves at the start of the day
  predicted_before, predicted_after   largest over mean usage in the worst hour of the profile,
                      as it was and under the plan
met           scenarios in which the p99 is not higher and at most a fifth of the load moves
missed        all other scenarios
peak_rss_mb   memory of the process

The two days of ``scale-out`` differ: brokers are added on the first day. It is replayed as well,
since the added brokers are there throughout the second day.
"""

import argparse
import gc
import resource
import sys
from pathlib import Path
from typing import Any, Final

_NAMES: Final = (
    *("steady-skew", "diurnal", "mixed-hardware", "giant-bundle"),
    *("giant-topic", "flash-crowd", "flapping-consumers", "scale-out"),
)
_HOURS: Final = 48
_MOST_RATIO: Final = 0.2
# A replay makes millions of small values and hardly ever a cycle.
_GARBAGE_AT: Final = 200_000


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.cli.runtime.output import print_facts, print_table
    from broker_ctl.codec import encode
    from broker_ctl.errors import SettingsError
    from tests.benchmarks.machine.load import with_machine_load

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--scenario", action="append", help="only this scenario; repeatable")
    arguments = parser.parse_args()
    gc.set_threshold(_GARBAGE_AT)
    try:
        found = with_machine_load(lambda: run(tuple(arguments.scenario or _NAMES)))
    except SettingsError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    if arguments.json:
        sys.stdout.write(encode(found).decode() + "\n")
        return
    for name, row in found["scenarios"].items():
        print_table(name, ("figure", "value"), list(row.items()))
    print_facts(
        "benchmark", {key: found[key] for key in ("met", "missed", "peak_rss_mb", "machine")}
    )


def run(names: tuple[str, ...]) -> dict[str, Any]:
    """The object; a line of progress on stderr for each scenario."""
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        rows[name] = _row(name)
        sys.stderr.write(f"{name}: {rows[name]}\n")
        sys.stderr.flush()
    met = [name for name, row in rows.items() if _is_met(row)]
    return {
        "scenarios": rows,
        "met": met,
        "missed": [name for name in rows if name not in met],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _row(name: str) -> dict[str, Any]:
    from broker_ctl.simulation.next_day import next_day
    from broker_ctl.simulation.replay.replay import POLICIES
    from broker_ctl.simulation.scenarios import scenario

    ours = POLICIES["balance"]()
    day = next_day(scenario(name, hours=_HOURS), ours.rules, ours.pace)
    alone, planned = day.reactive, day.planned
    return {
        "p99_reactive": alone.p99,
        "p99_plan": planned.p99,
        "load_moved_reactive": alone.load_moved_pct_per_h,
        "load_moved_plan": planned.load_moved_pct_per_h,
        "load_moved_ratio": day.moved_ratio,
        "moves_reactive": alone.moves,
        "moves_plan": planned.moves,
        "forced_reactive": alone.forced_pct_per_h,
        "forced_plan": planned.forced_pct_per_h,
        "relocated_ratio": day.placement.moved_ratio,
        "predicted_before": float(day.placement.before.max()),
        "predicted_after": float(day.placement.after.max()),
    }


def _is_met(row: dict[str, Any]) -> bool:
    is_even = row["p99_plan"] <= row["p99_reactive"]
    return bool(is_even and row["load_moved_plan"] <= _MOST_RATIO * row["load_moved_reactive"])


if __name__ == "__main__":
    main()
