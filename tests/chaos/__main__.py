"""Real daemons on a real ensemble, through faults: what must never be false, and is it?

examples:
  python -m tests.chaos --seconds 600 --seed 1 --json
  python -m tests.chaos --seconds 60 --faults session_expired,links_half_open --keep DIR
  python -m tests.chaos --seconds 120 --guard lease
  python -m tests.chaos --seconds 60 --guard none --faults daemon_paused_2.0   (finds something)
  python -m tests.chaos --outage 300 --json
  python -m tests.chaos --restored 5 --json     (servers come back as an older copy)
  python -m tests.chaos --hosts --seconds 600 --json   (each process on a host of its own)

Two phases share the time: in the first the lease keeps two owners apart and tokens are ignored,
in the second tokens do and the lease is off. The exit code is 1 where something was false. Logs
are kept with --keep DIR only.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from broker_ctl.codec import encode
from tests.chaos.faults.faults import FAULTS
from tests.chaos.faults.outage import Outage, outage
from tests.chaos.faults.restoration import Restored, restored
from tests.chaos.hosts.cluster import HostedCluster
from tests.chaos.hosts.faults import HOST_FAULTS
from tests.chaos.hosts.network import enter, missing
from tests.chaos.judges.acts import Guard
from tests.chaos.progress import Progress
from tests.chaos.run import Options, Result, run

Found = Result | Outage | Restored


def _check_kinds(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    faults = HOST_FAULTS if given.hosts else FAULTS
    given.faults = list(faults) if given.faults is None else given.faults.split(",")
    if unknown := set(given.faults) - faults.keys():
        parser.error(f"--faults: {', '.join(sorted(unknown))}: there are {', '.join(faults)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long in all (60)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and traffic (1)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--faults", help="only these kinds, joined by commas")
    parser.add_argument(
        "--hosts", action="store_true", help="hosts in namespaces, whose packets are dropped"
    )
    parser.add_argument("--guard", type=Guard, choices=list(Guard), help="only this phase")
    parser.add_argument(
        "--outage", type=float, metavar="SECONDS", help="stop all servers for SECONDS"
    )
    parser.add_argument(
        "--restored", type=int, metavar="TIMES", help="restore the servers from a copy"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all logs there")
    given = parser.parse_args()
    _check_kinds(parser, given)
    if given.hosts and (why := missing()) is not None:
        parser.error(f"--hosts: {why}")
    return given


async def _work(given: argparse.Namespace, directory: Path) -> Found:
    if given.outage is not None:
        return await outage(given.outage, directory / "outage", Progress(given.outage))
    if given.restored is not None:
        progress = Progress(60.0 * given.restored)
        return await restored(given.restored, given.seed, directory / "restored", progress)
    guards = [Guard.LEASE, Guard.TOKENS] if given.guard is None else [given.guard]
    options = Options(given.seconds, given.seed, given.faults, guards, directory)
    if given.hosts:
        options = replace(options, faults=HOST_FAULTS, cluster=HostedCluster)
    return await run(options)


async def _main(given: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    # Every scope ends what it has started. A shell's job in the background ignores Ctrl-C else.
    for end in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(end, task.cancel)
    with contextlib.ExitStack() as scope:
        directory = given.keep
        if directory is None:
            kept = tempfile.TemporaryDirectory(prefix="broker-ctl-chaos-")
            directory = Path(scope.enter_context(kept))
        result = await _work(given, directory.absolute())
    if given.json:
        sys.stdout.write(encode(result.to_row()).decode() + "\n")
    else:
        sys.stdout.write(result.sentence + "\n")
    return 1 if result.violations else 0


def main() -> int:
    """Run, and print what was found."""
    # The checker's own clients meet the faults, too: their warnings are expected.
    logging.getLogger("broker_ctl").setLevel(logging.ERROR)
    given = _options()
    if given.hosts:
        enter()
    try:
        return asyncio.run(_main(given))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


if __name__ == "__main__":
    sys.exit(main())
