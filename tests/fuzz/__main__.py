"""Fuzzes what reads bytes of others, with atheris.

Examples:
  python -m tests.fuzz --seconds 600
  python -m tests.fuzz --seconds 60 --target zookeeper_replies

The time is shared by the targets; as many run at once as there are cores. A finding is an exception
that callers do not expect; its input is left in the directory of --findings. Put it into
tests/fuzz/corpus: test_corpus.py replays it from then on. Needs atheris:
pip install -c deploy/constraints.txt -e '.[fuzz,test]'.
Exit codes: 0 nothing found; 1 something found.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz.targets.catalog import CORPUS, TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=60.0, help="how long in all (60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    targets = given.target or list(TARGETS)
    share_s = max(1, int(given.seconds / len(targets)))
    given.findings.mkdir(exist_ok=True)
    judge = partial(_is_fine, seconds=share_s, findings=given.findings.absolute())
    with ThreadPoolExecutor(given.jobs, "fuzzing") as pool:
        failed = [
            name for name, fine in zip(targets, pool.map(judge, targets), strict=True) if not fine
        ]
    if not any(given.findings.iterdir()):
        given.findings.rmdir()
    for name in failed:
        sys.stderr.write(f"{name}: see {given.findings}\n")
    if given.json:
        row = {"seconds": share_s, "targets": targets, "violations": failed}
        sys.stdout.write(json.dumps(row) + "\n")
    return bool(failed)


def _is_fine(name: str, seconds: int, findings: Path) -> bool:
    """Run one target in a process of its own: libFuzzer ends it at a finding."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as grown:
        command = [sys.executable, "-m", "tests.fuzz.drive", name]
        options = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{name}-"]
        # The first directory gets new inputs; the kept ones are only read.
        folders = [grown, str(CORPUS / name)]
        done = subprocess.run([*command, *options, *folders], stdout=sys.stderr, check=False)
        return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
