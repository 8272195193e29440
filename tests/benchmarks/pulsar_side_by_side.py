"""Pulsar's own balancing against ours: the same load on the same cluster, one after the other.

Starts a ZooKeeper server, a bookie and three brokers of Apache Pulsar, all on loopback. Producers
send to 64 topics in two namespaces, a hot one with two thirds of it all; in the middle five of its
topics rise fourfold. Each side begins with the same skewed placement: first Pulsar's
UniformLoadShedder, then `broker-ctl attach --act` with all of Pulsar's own balancing off. Nobody
splits. Who owns what is read from the owner nodes; no balancer is asked. Printed is, for each side:

p50, p99, mean       of the largest over the mean throughput of the brokers, twice a second, from
                     75 s after the balancer was switched on
moves                owner nodes that took another's place, from the moment it was switched on
interruption_ms_...  the longest send of each topic of a bundle around its move
settings             what the side runs with: intervals alike (Pulsar's least is a minute)
"""

import argparse
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
    parser.add_argument("--seed", type=int, default=7, help="of load and placement (7)")
    parser.add_argument("--rate", type=float, default=250.0, help="messages a second (250)")
    parser.add_argument("--seconds", type=float, default=200.0, help="that count, a side (200)")
    parser.add_argument("--keep", type=Path, help="a directory where our side's output stays")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.beside_pulsar.course import Wanted, run

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = Wanted(arguments.seed, arguments.rate, seconds=arguments.seconds)
    try:
        found = run(wanted, arguments.keep)
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
