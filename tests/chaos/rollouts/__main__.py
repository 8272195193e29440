"""Rollouts whose driver, leader, restarting broker or ZooKeeper server is killed at random points.

examples:
  python -m tests.chaos.rollouts --kills 20 --seed 1 --json
  python -m tests.chaos.rollouts --kills 3 --whom driver

Three daemons with simulated data planes on three ZooKeeper servers. Each rollout has one kill; then
another driver resumes, or an operator aborts. Every rollout has to end done or aborted, balancing
as it was before, nobody drained, every topic served. The exit code is 1 where one did not.
"""

import argparse
import asyncio
import logging
import signal
import sys
from dataclasses import asdict

from broker_ctl.codec import encode
from tests.benchmarks.machine.load import with_machine_load
from tests.chaos.rollouts.kills import VICTIMS, run


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.rollouts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=20, help="number of rollouts (20)")
    parser.add_argument("--seed", type=int, default=1, help="of points and victims (1)")
    parser.add_argument("--whom", choices=VICTIMS, help="only this one; else each in turn")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    victims = VICTIMS if given.whom is None else (given.whom,)

    def work() -> dict[str, object]:
        kills = asyncio.run(run(given.kills, given.seed, victims))
        failed = [kill.number for kill in kills if kill.wrong]
        return {"kills": [asdict(kill) for kill in kills], "failed": failed}

    try:
        found = with_machine_load(work)
    except KeyboardInterrupt:
        return 130
    if given.json:
        sys.stdout.write(encode(found).decode() + "\n")
    return bool(found["failed"])


if __name__ == "__main__":
    sys.exit(main())
