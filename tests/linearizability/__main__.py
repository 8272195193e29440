"""Holds the linearizability checker of the suites against porcupine, on random histories.

Examples:
  python -m tests.linearizability
  python -m tests.linearizability --histories 10000 --json

Needs Go: apt install golang-go.
Exit codes: 0 both judge alike; 1 they do not; 2 a tool is missing.
"""

import argparse
import json
import sys
import time

from tests.linearizability.against_porcupine import judge, missing_tool
from tests.linearizability.checker import check
from tests.linearizability.random_histories import MODELS, draw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.linearizability", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if missing := missing_tool():
        sys.stderr.write(f"{missing}\n")
        return 2
    histories = [draw(seed) for seed in range(given.seed, given.seed + given.histories)]
    began_s = time.perf_counter()
    ours = [check(MODELS[one.model], one.operations).is_linearizable for one in histories]
    took_s = time.perf_counter() - began_s
    theirs = judge(histories)
    apart = [
        given.seed + number
        for number, (own, other) in enumerate(zip(ours, theirs, strict=True))
        if own is not other
    ]
    row = {
        "histories": len(histories),
        "operations": sum(len(one.operations) for one in histories),
        "linearizable": sum(ours),
        "not_linearizable": len(ours) - sum(ours),
        "seconds": round(took_s, 1),
        "judged_apart": apart,
    }
    sys.stdout.write(f"{json.dumps(row) if given.json else row}\n")
    return bool(apart)


if __name__ == "__main__":
    sys.exit(main())
