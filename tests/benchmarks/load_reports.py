"""Measure the event loop of a leader while it receives load reports of many bundles.

Runs three ZooKeeper servers and one daemon of its own, below a temporary directory and on
loopback. The other brokers are sessions of the benchmark: each is registered, owns its bundles, and
writes a load report every few seconds. The daemon leads, decides every ten seconds what to shed and
to split, and only reports its decisions (`dryRun`), since the simulated brokers cannot carry out
commands. Some bundles are above the limits of a split and one broker is overloaded, so that each
cycle has decisions to make. It prints, for the time after the first two cycles:

bundles, brokers   number of reported bundles, and of brokers that reported them
reports            load reports that were written; `reports_failed`: writes that failed
report_bytes       size of the largest load report
loop_lag_ms        delay of timers in the daemon's event loop, by its own metric; quantiles are
                   interpolated between the bounds of the buckets, `max` is the next bound
idle_loop_lag_ms   the same, at the same time, of an idle event loop: the share of the machine
heartbeats         commits of the daemon's lease, by the servers' timestamps; `heartbeats_late`:
                   commits that were later than one period plus the margin of the lease
cycles, cycle_s    number of cycles, and seconds of a cycle, by the daemon's log
rss_mb             resident memory of the daemon at the end
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
        "--bundles", type=int, default=100_000, help="bundles of all brokers (100000)"
    )
    parser.add_argument("--brokers", type=int, default=20, help="simulated brokers (20)")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds to measure for (60)")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.reports.course import run

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = with_machine_load(
            lambda: asyncio.run(run(arguments.bundles, arguments.brokers, arguments.seconds))
        )
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
