"""Lookups against a bare aiohttp application, and a cluster in which nobody owns anything yet.

Runs three ZooKeeper servers and three daemons of its own, below a temporary directory and on
loopback. One daemon, which does not lead, has a core for itself and is asked for topics of which a
third lie in bundles without an owner: those are answered by a redirect, which nobody follows. What
asks is a process of its own on another core, which the servers and the other daemons share. Each
figure is the median of five rounds. Printed is:

http_lookups_s         lookups a second over 32 connections, each asking again when it is answered
http_p99_ms_at_2000    of an open loop of 2,000 a second, counted from when each was due
binary_lookups_s       the same over Pulsar's binary protocol, four on their way on each connection
binary_p99_ms_at_2000  the same
bare_aiohttp_s         an aiohttp application on the same core that answers the same bytes to every
                       lookup and looks at nothing, asked by turns with ours
cold                   1,000 other bundles, looked up all at once at three daemons: `all_owned_s`
                       runs from the first lookup until the last owner came, by ZooKeeper's clock

The rounds themselves follow, with the share of a core that the server and the asker used.
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
        "--only", action="append", help="a part of the object: http, binary or cold; repeatable"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a rehearsal with small counts; no figure of it counts"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.lookups.course import PARTS, run

    parts = arguments.only or PARTS
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = asyncio.run(run(parts, is_quick=arguments.quick))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
