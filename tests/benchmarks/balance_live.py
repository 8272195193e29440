"""Compare a live cluster with the simulator: the same scenario and rules should give the same p99.

Runs three ZooKeeper servers and four daemons of its own, below a temporary directory and on
loopback. Their simulated data planes play a scenario, one minute of it in each second, and every
interval of the daemons is 60 times shorter. Owners are read from the owner nodes in ZooKeeper, not
from the daemons. It prints:

live, simulated   p50, p99 and max of the largest usage of a broker over the mean usage, once a
                  minute, without the first ten minutes; moves, load_moved_pct_per_h and
                  back_and_forth
difference_p99    p99 of live minus p99 of simulated
move_s            length of a move, in seconds of the scenario; the simulator uses the same
failed_moves      moves that did not complete
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
    parser.add_argument(
        "--scenario", default="diurnal", help="a scenario without broker events (diurnal)"
    )
    parser.add_argument("--minutes", type=int, default=240, help="minutes of it to play (240)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the load; 0: the default (0)")
    parser.add_argument("--brokers", type=int, default=4, help="number of daemons (4)")
    parser.add_argument(
        "--lead", type=float, default=45.0, help="seconds that the cluster has to start in (45)"
    )
    parser.add_argument("--keep", type=Path, help="directory in which the logs are kept")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.live.cluster import Wanted
    from tests.benchmarks.live.course import run
    from tests.benchmarks.machine.load import with_machine_load

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
        found = with_machine_load(lambda: asyncio.run(run(wanted, arguments.keep)))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
