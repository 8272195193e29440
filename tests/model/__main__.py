"""Checks the specification of lease, owners, moves and sessions with Spin.

Examples:
  python -m tests.model
  python -m tests.model --json
  python -m tests.model --run "lease without CREDIT_ANY_BEAT"

Without --run all runs: the whole model, and the model without each of its guards, which must be
violated then. Needs spin and a C compiler: apt install spin gcc libc6-dev.
Exit codes: 0 all as expected; 1 not; 2 a tool is missing.
"""

import argparse
import json
import sys

from tests.model.checker import check, missing_tools
from tests.model.runs import RUNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--run", choices=[run.name for run in RUNS], help="only this one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if missing := missing_tools():
        sys.stderr.write(f"{missing}\n")
        return 2
    found = []
    for run in RUNS:
        if given.run in {None, run.name}:
            found.append(one := check(run))
            if not given.json:
                what = "violated" if one.is_violated else "holds"
                as_expected = "" if one.is_expected else ", NOT AS EXPECTED"
                sys.stdout.write(
                    f"{run.name}: {what}, {one.states} states, {one.seconds:.1f} s{as_expected}\n"
                )
                if given.run or not one.is_expected:
                    sys.stdout.writelines(f"    {line}\n" for line in one.story)
    if given.json:
        sys.stdout.write(json.dumps([one.to_row() for one in found]) + "\n")
    return not all(one.is_expected for one in found)


if __name__ == "__main__":
    sys.exit(main())
