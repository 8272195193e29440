"""Compare `broker-ctl attach` with Pulsar's balancer: the same load on the same cluster, in turn.

Starts a ZooKeeper server, a bookie and three brokers of Apache Pulsar, all on loopback. Producers
send to 64 topics in two namespaces, two thirds of the messages to the first; halfway through, the
rate of five of its topics rises fourfold. Both sides begin with the same skewed placement: first
Pulsar's UniformLoadShedder, then `broker-ctl attach --act` with Pulsar's balancer disabled. Neither
side splits bundles. Owners are read from the owner nodes in ZooKeeper, not from the balancers. It
prints, for each side:

p50, p99, mean       largest throughput of a broker over the mean throughput, twice a second, from
                     75 s after the balancer was enabled
moves                owner nodes that replaced another one since the balancer was enabled
interruption_ms_...  the longest send to each topic of a bundle around its move: quantiles
settings             settings of the side; both have the same intervals (Pulsar's minimum is 1 min)

The first run downloads Pulsar with Maven (245 MB). A run takes about a quarter of an hour.
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
    parser.add_argument("--seed", type=int, default=7, help="seed of load and placement (7)")
    parser.add_argument("--rate", type=float, default=250.0, help="messages a second (250)")
    parser.add_argument(
        "--seconds", type=float, default=200.0, help="seconds to measure each side for (200)"
    )
    parser.add_argument("--keep", type=Path, help="directory for the output of attach")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.beside_pulsar.course import Wanted, run
    from tests.benchmarks.machine.load import with_machine_load

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = Wanted(arguments.seed, arguments.rate, seconds=arguments.seconds)
    try:
        found = with_machine_load(lambda: run(wanted, arguments.keep))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
