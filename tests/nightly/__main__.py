"""What a CI system runs each night: all planted breaks, schedules and chaos of new seeds, fuzzing.

Examples:
  python -m tests.nightly --json
  python -m tests.nightly --schedules 500 --chaos 600 --seed 7 --record

--record adds the runs to docs/explanation/long-runs.md, with the sums of all of them.
Exit codes: 0 nothing was violated, and each planted break was seen; 1 else: seeds, fewest steps and
names are in the output.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from broker_ctl.clock import SystemClock
from tests.nightly.table import PAGE, LongRun, add

_SAID: Final = {"mutants": "survived", "fuzz": "fail by an input in fuzz-findings"}
# More than any night has schedules.
_SEEDS_A_NIGHT: Final = 100_000


def main() -> int:
    given = _options()
    rows: dict[str, dict[str, Any]] = {}
    if not given.no_mutants:
        rows["mutants"] = _run("tests.mutants", [])
    if given.schedules:
        asked = ["--schedules", str(given.schedules), "--seed", str(given.seed)]
        jobs = [] if given.jobs is None else ["--jobs", str(given.jobs)]
        rows["schedules"] = _run("tests.deterministic", [*asked, *jobs])
    if given.chaos:
        asked = ["--seconds", str(given.chaos), "--seed", str(given.seed)]
        rows["chaos"] = _run("tests.chaos", asked)
    if given.fuzz:
        rows["fuzz"] = _run("tests.fuzz", ["--seconds", str(given.fuzz)])
    if given.record:
        text = add(PAGE.read_text(), _long_runs(rows, given.seed))
        PAGE.write_text(text)
    found: dict[str, list[Any]] = {
        name: row["survivors" if name == "mutants" else "violations"] for name, row in rows.items()
    }
    if given.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        for name, bad in found.items():
            what = _SAID.get(name, f"violated, from seed {given.seed}")
            sys.stdout.write(f"{name}: {len(bad)} {what}\n")
            sys.stdout.writelines(f"    {json.dumps(said)}\n" for said in bad)
    return any(found.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--schedules", type=int, default=5_000, help="how many; 0: none")
    parser.add_argument("--chaos", type=int, default=3_600, metavar="SECONDS", help="0: none")
    parser.add_argument("--fuzz", type=int, default=3_600, metavar="SECONDS", help="0: none")
    parser.add_argument("--no-mutants", action="store_true", help="leave the planted breaks out")
    parser.add_argument("--seed", type=int, default=_seed_of_today(), help="else by the day")
    parser.add_argument("--jobs", type=int, help="processes of schedules; else one a core")
    parser.add_argument("--record", action="store_true", help=f"add the runs to {PAGE.name}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def _today() -> dt.date:
    return dt.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, dt.UTC).date()


def _seed_of_today() -> int:
    return _today().toordinal() * _SEEDS_A_NIGHT


def _run(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Its report; where it has none, it could not do its work."""
    command = [sys.executable, "-m", module, "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        row: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}, no report") from None
    return row


def _long_runs(rows: dict[str, dict[str, Any]], seed: int) -> list[LongRun]:
    day = _today().isoformat()
    asked = ["git", "-C", str(PAGE.parent), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    runs = []
    if "schedules" in rows:
        runs.append(LongRun.of_schedules(rows["schedules"], day, commit, seed))
    if "chaos" in rows:
        runs.append(LongRun.of_chaos(rows["chaos"], day, commit))
    return runs


if __name__ == "__main__":
    sys.exit(main())
