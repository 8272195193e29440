"""How the leader's event loop fares while very many bundles are reported.

Runs three ZooKeeper servers and one daemon of its own, below a temporary directory and on
loopback. The other brokers are sessions of the benchmark: each is registered, owns its bundles, and
writes its load report anew every few seconds. The daemon leads, looks for what to shed and to split
every ten seconds, and does nothing of it (`dryRun`), since nobody here could take its orders. Some
bundles are above the limits of a split and one broker has too much, so that there is something to
decide. Printed is, of the time after the first two cycles:

bundles, brokers   how many were reported, and by how many
reports            how many reports were written meanwhile; `reports_failed` those that were not
report_bytes       size of the largest
loop_lag_ms        how late the daemon's event loop ran a timer, by its own metric: quantiles are
                   interpolated between the bounds of its buckets, `max` is the bound above
idle_loop_lag_ms   the same of a loop that has nothing to do, at the same time: the machine's part
heartbeats         commits of the daemon's lease, and how many of them came later than a period and
                   the lease's margin after the one before: by the times that the servers gave them
cycle_s            how long its cycles took, by its log
rss_mb             what the daemon's process held at the end
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
    parser.add_argument("--bundles", type=int, default=100_000, help="of all brokers (100000)")
    parser.add_argument("--brokers", type=int, default=20, help="simulated ones (20)")
    parser.add_argument("--seconds", type=float, default=60.0, help="measured (60)")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.reports.course import run

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = asyncio.run(run(arguments.bundles, arguments.brokers, arguments.seconds))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
