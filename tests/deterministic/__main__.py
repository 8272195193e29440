"""Runs seeded schedules of faults on complete daemons in memory.

Examples:
  python -m tests.deterministic --schedules 5000 --json
  python -m tests.deterministic --seed 17 --trace
  python -m tests.deterministic --seed 17 --steps 3,40 --trace
  python -m tests.deterministic --seed 17 --shrink
  python -m tests.deterministic --daemons 1000 --hours 1 --json

The first schedules that violate something are shrunk to the fewest steps that still do, and the
report has the command that shows each. With --daemons it is one fleet of many daemons instead: a
day with restarts, deaths, a zone lost and an ensemble restart, and what each part of it costs.
Exit codes: 0 nothing was violated; 1 something was.
"""

import argparse
import json
import os
import sys


def say(what: str) -> None:
    sys.stdout.write(what + "\n")


def main() -> int:
    """Run schedules; exits 1 where something was violated."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings are walked in the order of hashes: a seed must replay in any process.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", __package__, *sys.argv[1:]], environment)
    # They import all of a daemon: not in a process that is about to be replaced.
    from tests.deterministic.run import hush, run, with_fewest_steps
    from tests.deterministic.schedule import Schedule
    from tests.deterministic.shrink import shrink
    from tests.deterministic.world.wire import Coverage

    options = _options()
    if options.daemons:
        return _fleet(options)
    if options.trace:
        hush()
        outcome = Schedule(options.seed, Coverage(), say, options.steps).run()
        say(f"seed {outcome.seed}, trace {outcome.trace:08x}, violations {outcome.violations}")
        return bool(outcome.violations)
    if options.shrink:
        hush()
        shrunk = shrink(options.seed)
        say(json.dumps(None if shrunk is None else shrunk.to_row()))
        return shrunk is not None
    result = run(options.seed, options.schedules, options.jobs, is_until_found=options.until_found)
    row = result.to_row()
    if not options.until_found:
        row["violations"] = with_fewest_steps(row["violations"])
    if options.json:
        say(json.dumps(row))
    else:
        say(
            f"{row['schedules']} schedules, {row['schedules_per_s']} a second, "
            f"{len(row['violations'])} violated, "
            f"each cut point at least {row['coverage_min']} times"
        )
        for violation in row["violations"]:
            say(f"seed {violation['seed']}: {violation['what']}")
            if "shrunk" in violation:
                say(f"    {violation['shrunk']['command']}")
    return bool(row["violations"])


def _fleet(options: argparse.Namespace) -> int:
    from tests.deterministic.fleet.run import run

    bundles = options.bundles or options.daemons * 100
    row = run(options.daemons, bundles, options.hours, options.seed)
    say(json.dumps(row, indent=None if options.json else 2))
    return bool(row["violations"])


def _numbers(text: str) -> list[int]:
    return [] if text == "none" else [int(number) for number in text.split(",")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.deterministic", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", action="store_true", help="print what happens in one schedule")
    parser.add_argument("--steps", type=_numbers, help="only these steps, or none; with --trace")
    parser.add_argument("--shrink", action="store_true", help="the fewest steps of one schedule")
    parser.add_argument("--until-found", action="store_true", help="end with the first violation")
    parser.add_argument("--daemons", type=int, help="daemons of a fleet, in place of schedules")
    parser.add_argument("--bundles", type=int, help="of the fleet (100 for each daemon)")
    parser.add_argument("--hours", type=float, default=24.0, help="virtual hours of the fleet (24)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
