"""Daemons of two releases in one cluster: a rolling upgrade to this tree and back, under traffic.

examples:
  python -m tests.chaos.versions --old /opt/earlier/bin/broker-ctl --json
  python -m tests.chaos.versions --old /opt/earlier/bin/broker-ctl --traffic 10 --keep DIR

Real servers and daemons; broker processes, clients and judges are those of `tests.chaos`. While
both releases run, brokers of each are elected, and an operator writes through one what all read.
`deploy/tests/upgrade` makes the environment of the earlier release. The exit code is 1 where
something was false.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from broker_ctl.codec import encode
from tests.chaos.judges.acts import Guard
from tests.chaos.phase import Phase, Report
from tests.chaos.progress import Progress
from tests.chaos.versions.steps import Steps
from tests.chaos.versions.unread import unread


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--old", type=Path, required=True, help="broker-ctl of the other release")
    parser.add_argument("--traffic", type=float, default=5.0, help="seconds between steps (5)")
    parser.add_argument("--seed", type=int, default=1, help="of traffic and operator (1)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all logs there")
    return parser.parse_args()


async def _run(given: argparse.Namespace, directory: Path) -> Report:
    old = (str(given.old.absolute()),)
    steps, guard = Steps(old, given.traffic), Guard.LEASE
    planned = list(steps.schedule())
    phase = Phase(
        guard,
        iter(planned),
        directory / guard,
        random.Random(given.seed),
        Progress(given.traffic * len(planned)),
        faults=steps.faults,
        command=old,
    )
    report = await phase.run(float("inf"))
    for step, times in (Counter(planned) - report.faults).items():
        report.violations.append(f"{step} failed {times} times: see what was said on stderr")
    report.violations += unread(sorted((directory / guard).glob("broker-?.log")))
    return report


def _row(report: Report) -> dict[str, Any]:
    return {
        "steps": dict(sorted(report.faults.items())),
        "acts": report.acts,
        "refused_acts": report.refused,
        "acquisitions": report.acquisitions,
        "committed_records": report.committed,
        "leader_elections": report.elections,
        "longest_recovery_s": round(max(report.recoveries_s, default=0.0), 2),
        "violations": report.violations,
    }


def _say(report: Report) -> str:
    return (
        f"{sum(report.faults.values())} steps, {report.acts} acts, "
        f"{report.acquisitions} acquisitions, {report.committed} committed records, "
        f"{len(report.violations)} violations"
    )


def main() -> int:
    """Run, and print what was found."""
    given = _options()
    # The checker's own clients meet daemons that stop: their warnings are expected.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    with contextlib.ExitStack() as scope:
        directory = given.keep
        if directory is None:
            kept = tempfile.TemporaryDirectory(prefix="broker-ctl-versions-")
            directory = Path(scope.enter_context(kept))
        try:
            report = asyncio.run(_run(given, directory.absolute()))
        except KeyboardInterrupt:
            return 130
    sys.stdout.write((encode(_row(report)).decode() if given.json else _say(report)) + "\n")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
