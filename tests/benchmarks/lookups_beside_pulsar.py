"""Compare lookups at a daemon with lookups at a broker of Apache Pulsar, a core for each.

Starts a ZooKeeper server, a bookie, a broker of Apache Pulsar and a daemon, all on loopback. The
broker and the daemon are held to the last core by affinity and asked in turn, the other one idle;
everything else, the client too, is held to the first core. Both are asked by the same client, in
the bytes of the same two protocols, for topics of a namespace of their own with 1,000 bundles. The
broker's JVM is started for one processor, with both compilers, and is asked before the first figure
until it is warm. It prints, for each side and protocol (`http`, `binary`), medians of the rounds:

lookups_s         answers a second over 32 connections; four requests in flight on each over the
                  binary protocol, one over HTTP
per_cpu_s         answers in a second of the side's CPU, which holds on a busy machine too
p50_ms_at_rate    from the moment that each was due, at as many lookups a second as `rate` says
p99_ms_at_rate    the same, 99th percentile
cold              a namespace in which no bundle has an owner: one topic of each is looked up, 128
                  requests in flight, until its owner was answered; seconds until the last, and the
                  99th percentile of one
ratio             the daemon's figure over the broker's

The first run downloads Pulsar with Maven (245 MB).
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
        "--quick",
        action="store_true",
        help="a rehearsal with small counts; its figures mean nothing",
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.lookups_beside.course import FULL, QUICK, measured
    from tests.benchmarks.lookups_beside.sides import both_sides
    from tests.benchmarks.machine.load import with_machine_load

    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sizes = QUICK if arguments.quick else FULL
    try:
        with both_sides() as sides:
            found = with_machine_load(lambda: asyncio.run(measured(sides, sizes)))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
