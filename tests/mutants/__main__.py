"""Planted breaks of the safety sentences, and the suites that see them.

examples:
  python -m tests.mutants --list
  python -m tests.mutants --json
  python -m tests.mutants --only lease-counted-from-receipt --every-suite
  python -m tests.mutants --part today
  python -m tests.mutants --sample 300 --seed 1 --json

Each mutant is planted in a copy of the package, never in the working tree. The suites that should
see it run in their order, until one does. What has failed with the mutant runs once more without
it: a test that fails either way has seen nothing. The exit code is 1 where a mutant survived.

The parts of a week have each mutant once. Each night and each release has all of them.
"""

import argparse
import fnmatch
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from tests.mutants.catalogue import MUTANTS
from tests.mutants.judge import Judgement, judge_all
from tests.mutants.mutant import KINDS, SAMPLED_KINDS, Mutant
from tests.mutants.sampling.selection import FOLDERS, count_of, draw

_DAYS: Final = 7


def main() -> int:
    """Judge mutants; 1 where one survived."""
    options = _options()
    chosen = _chosen(options)
    if options.list:
        for mutant in chosen:
            sys.stdout.write(f"{mutant.name:50} {mutant.sentence}\n")
        return 0
    # Its copies and processes end with it, whichever signal ends it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s, judged = time.monotonic(), 0

    def report(judgement: Judgement) -> None:
        nonlocal judged
        judged += 1
        sys.stderr.write(f"[{judged}/{len(chosen)}] {judgement}\n")
        sys.stderr.flush()

    judgements = judge_all(chosen, options.jobs, report, is_every_suite=options.every_suite)
    row = _row(judgements, options) | {"seconds": round(time.monotonic() - began_s)}
    if options.json:
        sys.stdout.write(json.dumps(row, indent=1) + "\n")
    else:
        sys.stdout.write(f"{row['mutants']} mutants, {len(row['survivors'])} survived\n")
        for name in row["survivors"]:
            sys.stdout.write(f"{name}\n")
    return bool(row["survivors"])


def _row(judgements: Sequence[Judgement], options: argparse.Namespace) -> dict[str, Any]:
    first = Counter(
        next(sight.suite.kind for sight in judgement.sights if sight.has_seen)
        for judgement in judgements
        if not judgement.has_survived
    )
    row: dict[str, Any] = {
        "mutants": len(judgements),
        "survivors": [each.mutant.name for each in judgements if each.has_survived],
        "first_seen_by": dict(sorted(first.items())),
        "judged": [judgement.to_row() for judgement in judgements],
    }
    if not options.sample:
        row["equal"] = {mutant.name: mutant.equal for mutant in MUTANTS if mutant.equal}
    else:
        row["sample"] = {"seed": options.seed, "folders": FOLDERS, "changes": count_of()}
    return row


def _chosen(options: argparse.Namespace) -> Sequence[Mutant]:
    all_ = draw(options.sample, options.seed) if options.sample else MUTANTS
    patterns = options.only or ["*"]
    found = [
        mutant.with_suites(options.suite) if options.suite else mutant
        for mutant in all_
        if any(fnmatch.fnmatchcase(mutant.name, pattern) for pattern in patterns)
    ]
    if not found:
        sys.exit(f"no mutant is called {' or '.join(patterns)}; --list names all")
    judged = [mutant for mutant in found if mutant.suites and not mutant.equal]
    part, of = options.part
    return judged[part - 1 :: of]


def part_of(text: str, now_s: float | None = None) -> tuple[int, int]:
    """``K/N`` as numbers; ``today``: that of the day of the week, in UTC.

    Raises:
        ValueError: neither, or there is no such part.
    """
    if text == "today":
        return time.gmtime(now_s).tm_wday + 1, _DAYS
    part, of = map(int, text.split("/"))
    if not 1 <= part <= of:
        raise ValueError(f"there is no part {text}")
    return part, of


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only this one; * stands for anything"
    )
    parser.add_argument(
        "--suite",
        action="append",
        choices=(*KINDS, *SAMPLED_KINDS),
        help="give them to suites of this kind only",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (one a core)"
    )
    parser.add_argument(
        "--every-suite", action="store_true", help="go on after the first suite that sees a mutant"
    )
    parser.add_argument(
        "--part",
        type=part_of,
        default=(1, 1),
        metavar="K/N",
        help="only these of N parts of equal size; today: that of the day of the week",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="COUNT",
        help=f"random changes of {', '.join(FOLDERS)}, in place of the catalogue",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
