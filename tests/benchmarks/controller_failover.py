"""Measure the partition controller: brokers that die, and controllers that are replaced.

Runs three ZooKeeper servers and seven daemons of its own, below a temporary directory and on
loopback; the machine should be otherwise idle. Broker 7 leads all partitions, which have three
replicas each, and is killed; the other six take the leadership over. See Kafka's design of its
controller (docs: kafka-design-v3). It prints medians of several runs, after a first run that is
discarded:

broker_failover             by number of partitions that need a new leader
  seconds                   from the end of the dead broker's registration, as another client sees
                            it, to the last acknowledged partition update
  range_s                   the least and the most of it
  zk_ops                    operations of all daemons since the kill, counted by the servers
  serial_s                  the procedure of design v3 (a read, a write, and a queue node for each
                            recipient, one by one): measured on 500 partitions, and scaled
  raw_s                     the same number of states, written in the same transactions by a
                            client that does nothing else: one run before each failover
  raw_ratio                 the median of seconds in raw_s, run by run
  kill_to_first_fetch_s     from SIGKILL until a client has read a record from the new leader of
                            a partition; includes the session timeout of the dead broker, 6 s
by_transport                seconds, with partition updates sent through ZooKeeper and by HTTP
controller_failover         from the deletion of the controller's node until each broker has
                            acknowledged all of its replicas to the next controller
controlled_shutdown         from the request until other brokers lead all partitions
load_reads_per_s            nodes of topics and states that the next controller reads in a second
watches                     watches of all daemons, counted by the servers
memory                      by number of partitions: memory of one term of a controller, in a
                            process without replicas, in kB (1000 bytes) a partition
  held_kb                   after it has taken over, and sent all full instructions
  takeover_peak_kb          the most until then
  failover_peak_kb          the most while the leader of all partitions is replaced
  held_after_failover_kb    after that
  process_mb                the most of the whole process, the interpreter included
term                        by number of partitions: times of one controller after another, in a
                            process without replicas; brokers acknowledge at once
  created_s                 all topics, of 10,000 partitions each, are made through the controller
  third_dies_s              the broker that leads a third of the partitions is gone: until they are
                            led, and the last instruction has been acknowledged
  shutdown_s                the broker that leads another third is let go: as above
  takeover_s                the controller is replaced: as above, all full instructions included
  loop_lag_ms               how late the loop woke from sleeps of 10 ms, through all of that
  heartbeats                committed over the controller's session, one a second
  heartbeats_late           those that took more than a third of the session timeout
  longest_heartbeat_s       from the time that it was due until it was committed
  process_mb                the most of the whole process
peak_rss_mb                 memory of the largest daemon, which has replicas too
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
    from tests.benchmarks.machine.load import with_machine_load
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
        help="numbers of partitions, separated by commas (10000,100000)",
    )
    parser.add_argument("--only", choices=PARTS, help="measure only this part")
    parser.add_argument("--runs", type=int, default=5, help="runs that the median is taken of (5)")
    parser.add_argument("--heap", default="1g", help="largest Java heap of a server (1g)")
    arguments = parser.parse_args()
    # Killed brokers refuse connections, as expected: no warnings about that.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = PARTS if arguments.only is None else (arguments.only,)
    wanted = Wanted(arguments.partitions, parts, arguments.runs, heap_mb_of(arguments.heap))
    try:
        found = with_machine_load(lambda: asyncio.run(run(wanted)))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
