"""Restart every broker of a cluster, in three ways, and measure how long topics were unserved.

Runs a ZooKeeper server and daemons with simulated data planes, below a temporary directory and on
loopback. All brokers restart one after the other, the leader last: stopped with SIGTERM alone;
drained before, without a plan for where the bundles go; and by a rollout. All topics together have
1,000 messages a second, and a topic is served every 0.1 s: what is longer is a gap. A client whose
topic is not served for two of these ticks looks it up, with a back-off from 0.1 to 1 s. It prints
for each way:

p99_s, p99_9_s, p99_99_s   wait of messages that are published evenly over time and topics
longest_gap_s              of any topic
gaps_above_1_s             topics that were unserved for longer, each time counted
moves, least_moves         bundles that were acquired; the bound of the rollout's plan
lookups                    of clients whose topic was closed
is_whole                   false: --limit has cut it short; all figures are of the part before
took_s                     from the first stop until 3 s after the last broker is ready
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
    parser.add_argument("--brokers", type=int, default=10, help="number of daemons (10)")
    parser.add_argument("--bundles", type=int, default=1000, help="number of bundles (1000)")
    parser.add_argument("--topics", type=int, default=10000, help="number of topics (10000)")
    parser.add_argument(
        "--way",
        action="append",
        choices=("sigterm", "drains", "rollout"),
        help="only this one; may be given several times",
    )
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", help="cut a way short after this time"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.rollouts.course import WAYS, Size, run

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        size = Size(arguments.brokers, arguments.bundles, arguments.topics)
        ways = arguments.way or list(WAYS)
        found = with_machine_load(lambda: asyncio.run(run(size, ways, arguments.limit)))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
