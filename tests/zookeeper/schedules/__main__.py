"""Plays seeded schedules of the ZooKeeper client's recipes on virtual time.

Examples:
  python -m tests.zookeeper.schedules --schedules 10000 --json
  python -m tests.zookeeper.schedules --seed 244 --schedules 1

Exit codes: 0 nothing was violated; 1 something was: each with the command that plays it again.
"""

import argparse
import json
import logging
import os
import sys
from collections import Counter as Tally
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.zookeeper.schedules.world import run


@dataclass
class Outcome:
    """What became of one schedule.

    Attributes:
        calls: by name: what workers asked for, and what went wrong around them.
        violation: empty where nothing was violated.
    """

    seed: int
    calls: Tally[str] = field(default_factory=Tally)
    violation: str = ""


def play(seed: int) -> Outcome:
    """Play one schedule; whatever it raises is a finding."""
    logging.disable(logging.CRITICAL)
    try:
        return Outcome(seed, run(seed).calls)
    except Exception as error:  # noqa: BLE001  any is a finding, with its seed
        return Outcome(seed, violation=f"{type(error).__name__}: {error}")


def main() -> int:
    """Play schedules; exits 1 where something was violated."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings are walked in the order of hashes: a seed must replay in any process.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", __package__, *sys.argv[1:]], environment)
    options = _options()
    seeds = range(options.seed, options.seed + options.schedules)
    calls: Tally[str] = Tally()
    violations = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, outcome in enumerate(pool.map(play, seeds, chunksize=4), 1):
            calls.update(outcome.calls)
            if outcome.violation:
                violations.append(
                    {
                        "seed": outcome.seed,
                        "what": outcome.violation,
                        "command": f"python -m {__package__} --seed {outcome.seed} --schedules 1",
                    }
                )
                sys.stderr.write(f"seed {outcome.seed}: {outcome.violation}\n")
            if number % 100 == 0:
                sys.stderr.write(f"{number} of {len(seeds)}, {len(violations)} violated\n")
    if options.json:
        row = {"schedules": len(seeds), "first_seed": options.seed, "calls": dict(calls)}
        sys.stdout.write(json.dumps(row | {"violations": violations}) + "\n")
    else:
        sys.stdout.write(f"{len(seeds)} schedules, {len(violations)} violated\n")
        for one in violations:
            sys.stdout.write(f"seed {one['seed']}: {one['what']}\n    {one['command']}\n")
    return bool(violations)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
