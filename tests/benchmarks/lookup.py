"""Measure lookups: beside a bare aiohttp application, and in a namespace without owners.

Runs three ZooKeeper servers and three daemons of its own, below a temporary directory and on
loopback. One daemon, which does not lead, has a core for itself. A client in a process of its own
looks topics up there; a third of them are in bundles without an owner, which are answered by a
redirect that the client does not follow. The client shares the other core with the servers and the
other daemons. Each figure is the median of five rounds. It prints:

http_lookups_s         lookups a second over 32 connections, each with one request in flight
http_p99_ms_at_2000    99th percentile at 2,000 lookups a second, from the moment that each was due
binary_lookups_s       lookups a second over Pulsar's binary protocol: 32 connections, four requests
                       in flight on each
binary_p99_ms_at_2000  as for HTTP
bare_aiohttp_s         answers a second of an aiohttp application on the same core that sends the
                       same bytes for each request; measured in turns with the daemon
http_to_bare_ratio     http_lookups_s over bare_aiohttp_s; http_to_bare_cpu_ratio: of what each
                       answers in a second of its CPU, which holds on a busy machine too
secured                lookups a second at a daemon that asks who sends them (JSON Web Tokens,
                       grants, signed commands and nodes), in turns with the other one; the ratios
                       are secured over open, `cpu`: of what each answers in a second of its CPU
traced                 lookups a second over HTTP without tracing, and with it for none, a hundredth
                       and all of the requests that begin no trace of their own, in turns; `cpu` as
                       above. `spans`: of lookups that came to a collector. With `--program` also
                       at the daemons of another installation
cold                   1,000 bundles without owners, looked up at the same time at three daemons;
                       `all_owned_s`: from the first lookup until the last bundle had an owner, by
                       ZooKeeper's timestamps

The rounds follow, with the share of a core that server and client used.
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
        "--only",
        action="append",
        help="measure only this part: http, binary, secured, traced or cold; repeatable",
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="BROKER_CTL",
        help="the part traced also asks daemons of this program, for example of an earlier release",
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
    from tests.benchmarks.lookups.course import PARTS, run
    from tests.benchmarks.machine.load import with_machine_load

    parts = arguments.only or PARTS
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    program = arguments.program and arguments.program.resolve()
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = with_machine_load(
            lambda: asyncio.run(run(parts, is_quick=arguments.quick, program=program))
        )
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
