"""What an expired session costs (docs: pip-57), and lost servers and leaders.

Runs three ZooKeeper servers and three daemons of its own, below a temporary directory and on
loopback. One broker owns all bundles; clients look all of them up over HTTP, at all three brokers,
throughout. Then the servers end that broker's session. Printed is:

bundles                     how many it owned
reowned_s                   from its new session until it has all of them again, by its log
ownership_changes           bundles that others own since then, or owned in between
peak_in_flight              most acquisitions that the broker had unanswered at once
follower_kill_reconnect_ms  from SIGKILL of a follower until its clients' sessions are back
leader_kill_reconnect_ms    the same for the leader and all clients; after_new_leader_p99 counts
                            from when another server says that it leads
leader_failover_s           from SIGKILL of the elected daemon until another one leads: the
                            session of the dead one has to expire first
serial_baseline_s           as many bundles taken one by one, each renewed before the next, among
                            the same brokers and clients
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
    parser.add_argument("--bundles", type=int, default=10_000, help="owned by one broker (10000)")
    parser.add_argument("--kills", type=int, default=6, help="of followers, and of leaders (6)")
    parser.add_argument("--failovers", type=int, default=3, help="of the elected daemon (3)")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.session.course import run

    # That killed servers take no connection is no news here.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = asyncio.run(run(arguments.bundles, arguments.kills, arguments.failovers))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
