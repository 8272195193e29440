"""Attacks daemons of this tree, or of another one, from outside.

Each attack succeeded on an earlier state of the code. On this one none does; on a checkout of the
other, --tree shows what it was good for.

Examples:
  python -m tests.security.attacks
  python -m tests.security.attacks --tree /tmp/earlier --json

Exit codes: 0 none succeeds; 1 one does.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from broker_ctl.codec import encode
from broker_ctl.lab.embedded.ensemble import Ensemble
from tests.security.attacks.catalogue import ATTACKS
from tests.security.attacks.scene import Outcome, scene


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.attacks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="whose daemons (this one)")
    parser.add_argument("--attack", choices=ATTACKS, action="append", help="only this one")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    # Both are for the daemons and commands, which are processes of their own.
    os.chdir(given.tree)
    os.environ["PYTHONPATH"] = str(given.tree.absolute())
    # As most machines have it.
    os.umask(0o022)
    found = asyncio.run(_attack(given.attack or list(ATTACKS)))
    if given.json:
        rows = {name: {"succeeds": one.succeeds, "seen": one.seen} for name, one in found.items()}
        sys.stdout.write(encode(rows).decode() + "\n")
    return any(one.succeeds for one in found.values())


async def _attack(names: list[str]) -> dict[str, Outcome]:
    found = {}
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        directory = Path(name)
        async with (
            Ensemble.of(directory / "zookeeper", servers=1) as ensemble,
            scene(directory, ensemble.connect_string) as one,
        ):
            for each in names:
                outcome = found[each] = await ATTACKS[each](one)
                word = "succeeds" if outcome.succeeds else "fails"
                sys.stderr.write(f"{each}: {word}: {outcome.seen}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
