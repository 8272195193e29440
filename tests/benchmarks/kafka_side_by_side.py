"""Compare the partition controller with that of Kafka, on the same ZooKeeper servers.

Runs three ZooKeeper servers, three brokers of Apache Kafka in its ZooKeeper mode and three daemons,
below a temporary directory and on loopback; Maven brings Kafka at the first use. Broker 3 leads all
partitions, which have three replicas each. The two systems take turns. It prints, for each row,
medians in seconds, `kafka_ratio`: how many times as long Kafka took, and `cpu_s` and `kafka_cpu_s`:
what the brokers, the controller among them, and the servers computed meanwhile; the rest of the
time they waited for disks, for each other, or for a core.

leader_dies           from the end of the broker's registration until the others have carried out
                      the instructions of their controller for all partitions
controller_dies       from the deletion of the controller's node until each broker has carried out
                      the instructions of the next controller for all its replicas
controlled_shutdown   from SIGTERM (Kafka) or the request (broker-ctl) until the others lead
reassignment          of 1,000 partitions, which have no records, from one broker to another
topic_creation        of 10,000 partitions, until each broker has its replicas
topic_deletion        of the same, until its node is gone

A broker of Kafka has a file open for each of its replicas.
"""

import argparse
import asyncio
import logging
import resource
import signal
import sys
from pathlib import Path


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.kafka.course import BROKERS, run
    from tests.benchmarks.kafka.release import release
    from tests.benchmarks.kafka.rows import ROWS
    from tests.benchmarks.kafka.sizes import Sizes
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.store.course import heap_mb_of
    from tests.support.java.maven import MavenFailed

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--partitions", type=int, default=2_000, help="a multiple of 50 (2000)")
    parser.add_argument("--moved", type=int, default=1_000, help="of the reassignment (1000)")
    parser.add_argument("--large", type=int, default=10_000, help="of the large topic (10000)")
    parser.add_argument(
        "--large-replicas",
        type=int,
        default=3,
        choices=range(1, BROKERS + 1),
        help="of each of its partitions (3)",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs that the median is taken of (3)")
    parser.add_argument(
        "--only", action="append", choices=ROWS, help="measure only this row; repeatable"
    )
    parser.add_argument("--heap", default="1g", help="largest Java heap of a server (1g)")
    parser.add_argument(
        "--kafka-heap", default="4g", help="largest Java heap of a broker of Kafka (4g)"
    )
    arguments = parser.parse_args()
    if arguments.partitions % 50:
        parser.error("--partitions is a multiple of 50")
    # Killed brokers refuse connections, as expected: no warnings about that.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sizes = Sizes(
        arguments.partitions,
        arguments.moved,
        arguments.large,
        arguments.large_replicas,
        heap_mb_of(arguments.kafka_heap),
        arguments.runs,
        arguments.only or ROWS,
    )

    needed, limit = sizes.files_of_a_broker(BROKERS), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if needed > limit != resource.RLIM_INFINITY:
        parser.error(
            f"a broker of Kafka opens up to {needed} files, and a process may open {limit} "
            "(ulimit -Hn): raise that, or ask for fewer partitions or --large-replicas"
        )

    async def measured() -> dict[str, object]:
        return await run(await release(), sizes, heap_mb_of(arguments.heap))

    try:
        found = with_machine_load(lambda: asyncio.run(measured()))
    except KeyboardInterrupt:
        sys.exit(130)
    except MavenFailed as error:
        sys.exit(str(error))
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
