"""From a running cluster to a report and a recommendation, with one command each.

    python -m tests.pipeline.end_to_end

Runs ``broker-ctl quickstart`` with real processes, and each verb of the pipeline on the history
that it leaves, as a user types them; takes some minutes. The daily profile is held against DuckDB,
which makes it of the lines by itself, and what is recommended against the loader of settings.
Prints one JSON object:

seconds             of each command, as the machine was
commands            as they were typed
quickstart          its report of itself
ingest, profile     rows by table
profile_rows        of the daily profile
profile_difference  largest relative one to DuckDB; at most 1e-9 is right
backtest            replays, and comparisons of candidates
recommended         settings; and refused: why others are not
no_plan             why there is no placement plan: it is not a day old
report_bytes        size of the report
is_right            all of it; the exit code is 1 where not
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from broker_ctl.settings.sources import read
from tests.support.pipeline.profile_sql import profile_of_lines, profile_of_tables

_DEADLINE_S: Final = 1800.0
_DURATION_S: Final = 120
_DAYS: Final = 7
_MOST_DIFFERENCE: Final = 1e-9
_SWEPT: Final = "loadBalancerPlannerHighPercentage"
# One candidate needs at least six pairs to be supported.
_SEEDS: Final = 8
_MEASURES: Final = slice(4, None)


class Console:
    """Runs commands in a directory, and remembers them."""

    def __init__(self, directory: Path) -> None:
        self.seconds: dict[str, float] = {}
        self.commands: list[str] = []
        self._directory = directory

    def run(self, name: str, line: str, *, code: int = 0) -> str:
        """The standard output of a command.

        Raises:
            RuntimeError: it ended with another code, or with a traceback.
        """
        return self._done(name, line, code).stdout

    def ask(self, name: str, line: str, *, code: int = 0) -> Any:
        """The JSON that a command prints; raises as ``run``."""
        return json.loads(self.run(name, f"{line} --output json", code=code))

    def refusal(self, name: str, line: str) -> str:
        """The standard error of a command that ends with code 1; raises as ``run``."""
        return self._done(name, line, 1).stderr

    def _done(self, name: str, line: str, code: int) -> subprocess.CompletedProcess[str]:
        self.commands.append(f"broker-ctl {line}")
        sys.stderr.write(f"broker-ctl {line}\n")
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "broker_ctl", *line.split()],
            cwd=self._directory,
            capture_output=True,
            check=False,
            text=True,
            timeout=_DEADLINE_S,
        )
        self.seconds[name] = round(time.monotonic() - started, 1)
        if done.returncode != code or "Traceback" in done.stderr:
            raise RuntimeError(f"broker-ctl {line}: exit code {done.returncode}\n{done.stderr}")
        return done


def end_to_end(directory: Path, duration_s: int) -> dict[str, Any]:
    """All of it in an empty directory."""
    console = Console(directory)
    cluster = console.run(
        "quickstart", f"quickstart --headless --duration {duration_s} --dir cluster --json"
    )
    taken = console.ask("ingest", "pipeline ingest cluster/history --tables tables --check")
    made = console.ask("profile", "pipeline profile tables --to profiles")
    compared = console.ask(
        "backtest",
        f"pipeline backtest --tables tables --to backtest --seeds {_SEEDS} --set {_SWEPT}=105,115",
    )
    console.run(
        "report",
        "pipeline report profiles --tables tables --backtest backtest --to report.html",
    )
    lines = console.run("recommend", "pipeline recommend backtest")
    # A cluster of two minutes has no day to plan by: the answer says so, and has the rest.
    recommended = console.ask(
        "recommend_plan",
        "pipeline recommend backtest --profiles profiles --tables tables --plan-to plan.json",
        code=1,
    )
    rows, difference = _difference(directory)
    found = {
        "quickstart": json.loads(cluster),
        "ingest": {each["table"]: each["rows"] for each in taken["tables"]},
        "faulty_lines": taken["faulty_lines"],
        "profile": made,
        "profile_rows": rows,
        "profile_difference": difference,
        "backtest": {name: len(rows) for name, rows in compared.items()},
        "recommended": recommended["settings"],
        "refused": [each["why"] for each in recommended["refused"]],
        "no_plan": recommended["no_plan"],
        "report_bytes": (directory / "report.html").stat().st_size,
    }
    is_right = all(
        (
            rows > 0 and difference <= _MOST_DIFFERENCE,
            taken["faulty_lines"] == 0 and taken["unreadable"] == 0,
            _set_by(directory, lines) == recommended["settings"],
            recommended["supported"] or recommended["refused"],
            "of 24 hours" in recommended["no_plan"] and not (directory / "plan.json").exists(),
            found["report_bytes"] > 0,
        )
    )
    return {
        "seconds": console.seconds,
        "commands": console.commands,
        **found,
        "is_right": is_right,
    }


def _difference(directory: Path) -> tuple[int, float]:
    """Rows of the daily profile, and the largest relative difference to DuckDB's."""
    ours = profile_of_tables(directory / "profiles")
    theirs = profile_of_lines(directory / "cluster" / "history", _DAYS)
    if [row[:4] for row in ours] != [row[:4] for row in theirs]:
        raise RuntimeError("the daily profile has other bundles, hours or days than DuckDB finds")
    pairs = [
        pair
        for one, other in zip(ours, theirs, strict=True)
        for pair in zip(one[_MEASURES], other[_MEASURES], strict=True)
    ]
    return len(ours), max(abs(a - b) / max(abs(b), 1e-300) for a, b in pairs)


def _set_by(directory: Path, lines: str) -> dict[str, str]:
    """The settings in what was printed, as a daemon reads them."""
    path = directory / "recommended.conf"
    path.write_text(lines)
    reading = read(path, {}, [])
    if reading.problems or reading.unknown or reading.unused:
        raise RuntimeError(f"{path}: {reading.problems} {reading.unknown} {reading.unused}")
    entries = (line.partition("=") for line in lines.splitlines() if not line.startswith("#"))
    return {key: value for key, _, value in entries}


def main() -> None:
    """Run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duration", type=int, default=_DURATION_S, help="of the cluster, seconds")
    parser.add_argument("--dir", type=Path, help="empty; kept")
    arguments = parser.parse_args()
    if arguments.dir is not None:
        arguments.dir.mkdir(parents=True, exist_ok=True)
        found = end_to_end(arguments.dir.absolute(), arguments.duration)
    else:
        with tempfile.TemporaryDirectory() as directory:
            found = end_to_end(Path(directory), arguments.duration)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.exit(0 if found["is_right"] else 1)


if __name__ == "__main__":
    main()
