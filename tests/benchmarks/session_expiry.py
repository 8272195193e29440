"""Measure the expiry of a broker's session, and the loss of ZooKeeper servers and of leaders.

Runs three ZooKeeper servers and three daemons of its own, below a temporary directory and on
loopback. One broker owns all bundles, and clients look them up over HTTP at all three brokers. Then
the servers end the session of that broker (docs: pip-57). It prints:

bundles                     number of bundles that the broker owns
reowned_s                   from its new session until it owns all of them again, by its log
raw_transactions_s          the same transactions, prepared, on one socket, without a broker
reowned_to_raw_ratio        reowned_s over raw_transactions_s of the same round
ownership_changes           bundles that another broker has owned since
peak_in_flight              largest number of acquisitions in flight
follower_kill_reconnect_ms  from SIGKILL of a follower until its clients are connected again;
                            expired: sessions that the servers ended meanwhile
leader_kill_reconnect_ms    the same for the leader and all clients; after_new_leader_p99: from the
                            moment when another server leads
leader_failover_s           from SIGKILL of the leading daemon until another one leads; includes the
                            session timeout of the dead daemon, 6 s
serial_baseline_s           the same number of bundles acquired one by one, each renewed before the
                            next, beside the same brokers and clients

The first four are medians of five rounds.
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
    parser.add_argument("--bundles", type=int, default=10_000, help="bundles of the broker (10000)")
    parser.add_argument("--expiries", type=int, default=5, help="expiries of its session (5)")
    parser.add_argument(
        "--kills", type=int, default=6, help="kills of followers, and of leaders (6)"
    )
    parser.add_argument("--failovers", type=int, default=3, help="kills of the leading daemon (3)")
    parser.add_argument(
        "--quick", action="store_true", help="three expiries, and one of each other loss"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.session.course import Extent, run

    if arguments.quick:
        extent = Extent(arguments.bundles, expiries=3, kills=1, failovers=1, is_serial=False)
    else:
        extent = Extent(arguments.bundles, arguments.expiries, arguments.kills, arguments.failovers)
    # Killed servers refuse connections, as expected: no warnings about that.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = with_machine_load(lambda: asyncio.run(run(extent)))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
