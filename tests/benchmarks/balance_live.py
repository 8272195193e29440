"""A live cluster against the simulator: the same scenario, the same rules, the same p99.

Runs three ZooKeeper servers and four daemons of its own, below a temporary directory and on
loopback. Their simulated data planes play a scenario, a minute of it in a second, and every
interval is as much shorter. Who owns what is read from the owner nodes; no daemon is asked.
Printed is:

live, simulated   p50, p99 and max of the largest usage over the mean usage of the brokers, each
                  minute, the first ten cut; moves, load_moved_pct_per_h, back_and_forth
difference_p99    the live one less the simulated one
move_s            how long a move took, in seconds of the scenario: in the simulator as well
failed_moves      that the leader gave up
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--scenario", default="diurnal", help="whose brokers all stay (diurnal)")
    parser.add_argument("--minutes", type=int, default=240, help="of the scenario (240)")
    parser.add_argument("--seed", type=int, default=0, help="0: the scenario's own (0)")
    parser.add_argument("--brokers", type=int, default=4, help="daemons (4)")
    parser.add_argument("--lead", type=float, default=45.0, help="seconds to be ready in (45)")
    parser.add_argument("--keep", type=Path, help="a directory where logs stay")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.live.cluster import Wanted
    from tests.benchmarks.live.course import run

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = Wanted(
        arguments.scenario,
        arguments.seed,
        arguments.brokers,
        arguments.minutes,
        lead_s=arguments.lead,
    )
    try:
        found = asyncio.run(run(wanted, arguments.keep))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
