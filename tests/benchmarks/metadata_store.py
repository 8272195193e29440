"""The metadata store against its peers: throughput, latency, and a storm (PIP-453).

Runs an ensemble of three ZooKeeper servers of its own, below a temporary directory and on loopback,
and asks nothing else of the machine but that it be otherwise idle. Takes less than eight minutes.
Every client measures in a process of its own, on uvloop. Nothing is cached and nothing coalesced.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

PARTS: Final = ("throughput", "latency", "storm")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--only", choices=PARTS, help="one part of the object")
    parser.add_argument("--heap", default="1g", help="largest Java heap of a server (1g)")
    parser.add_argument(
        "--quick", action="store_true", help="a rehearsal with small counts; no figure of it counts"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.store.course import heap_mb_of, run

    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = PARTS if arguments.only is None else (arguments.only,)
    try:
        found = asyncio.run(run(parts, heap_mb_of(arguments.heap), is_quick=arguments.quick))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
