"""The partition controller: brokers that die, controllers that change (docs: kafka-design-v3).

Runs three ZooKeeper servers and seven daemons of its own, below a temporary directory and on
loopback, and asks nothing else of the machine but that it be otherwise idle. Broker 7 leads all
partitions, which have three replicas each, and is killed; the six others share them. Printed are
medians of several runs, after one that does not count:

broker_failover             by number of partitions that need a new leader
  seconds                   from the end of the dead broker's registration, as another client hears
                            of it, to the last acknowledged instruction
  zk_ops                    operations of all daemons from the kill on, counted by the servers
  serial_s                  design v3's procedure (read, write, a queue node for each recipient,
                            one by one) on 500 partitions in the same run, scaled
  kill_to_first_fetch_s     from SIGKILL until a client was given a record by the new leader of
                            one of them: with it the session of the dead broker, of 6 s, has to end
by_transport                seconds with instructions through ZooKeeper, and by HTTP
controller_failover         from the end of the controller's seat until each broker has acknowledged
                            every replica that it has, told by another leading
controlled_shutdown         from the question until all that the broker led is led by others
load_reads_per_s            nodes of topics and states, by a controller that takes over
watches                     of all daemons, counted by the servers
peak_rss_mb                 of the largest daemon
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path


def _counts(text: str) -> list[int]:
    return sorted(int(part) for part in text.split(","))


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.failover.course import PARTS, Wanted, run
    from tests.benchmarks.store.course import heap_mb_of

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument(
        "--partitions",
        type=_counts,
        default=[10_000, 100_000],
        help="how many, separated by commas (10000,100000)",
    )
    parser.add_argument("--only", choices=PARTS, help="one part of the object")
    parser.add_argument("--runs", type=int, default=5, help="of which the median counts (5)")
    parser.add_argument("--heap", default="1g", help="largest Java heap of a server (1g)")
    arguments = parser.parse_args()
    # That killed brokers take no connection is no news here.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = PARTS if arguments.only is None else (arguments.only,)
    wanted = Wanted(arguments.partitions, parts, arguments.runs, heap_mb_of(arguments.heap))
    try:
        found = asyncio.run(run(wanted))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
