"""``broker-ctl zookeeper``: real ZooKeeper servers on this machine, in the foreground.

Its subcommands work on other servers.
"""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.verb_help import VerbGroup
from broker_ctl.cli.zookeeper.raise_epoch import command as raise_epoch
from broker_ctl.cli.zookeeper.secure import command as secure
from broker_ctl.cli.zookeeper.sign import command as sign
from broker_ctl.cli.zookeeper.status import command as status

if TYPE_CHECKING:
    from broker_ctl.embedded.ensemble import Ensemble


# \b keeps click from filling the lines.
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper
  broker-ctl zookeeper --nodes 3 --port 2181 --dir ./zk
  broker-ctl zookeeper --heap 1g
  broker-ctl zookeeper status zk1:2181,zk2:2181,zk3:2181
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005 --dry-run
  broker-ctl zookeeper secure --config broker.conf --dry-run
  broker-ctl zookeeper sign --config broker.conf --dry-run
"""


def _heap_mb(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,5})([mg])", text.lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size such as 256m or 1g")
    return int(found[1]) * (1024 if found[2] == "g" else 1)


@click.group(
    cls=VerbGroup,
    short_help="Run ZooKeeper for tests; check servers; close nodes.",
    epilog=_EXAMPLES,
    invoke_without_command=True,
)
@click.option(
    "--nodes",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Number of servers.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for data, configuration and logs.  [default: zookeeper-NODES in"
    " $XDG_STATE_HOME/broker-ctl or ~/.local/state/broker-ctl]",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_533),
    default=2181,
    show_default=True,
    help="Client port of the first server; further servers take the ports that follow.",
)
@click.option(
    "--heap",
    type=_heap_mb,
    metavar="SIZE",
    default="256m",
    show_default=True,
    help="Java heap of each server.",
)
@click.pass_context
def command(
    context: click.Context, nodes: str, directory: Path | None, port: int, heap: int
) -> None:
    """Run one ZooKeeper server, or three that elect a leader, until Ctrl-C; or a subcommand.

    For tests, not for production: all servers share this machine, listen on 127.0.0.1 only, and do
    not wait for the disk. The data is kept and used again by the next run with the same directory.
    With three servers, one that dies is restarted after five seconds while the others keep serving.

    The first run writes a user and its password to broker.secret in the directory (mode 0600). A
    daemon with zookeeperSaslDigestFile=DIR/broker.secret is that user, and its nodes are closed to
    all others.

    The servers come from the PySpark wheel: pip install 'broker-ctl[embedded]'.
    """
    if context.invoked_subcommand is not None:
        return
    from broker_ctl.embedded.ensemble import Ensemble
    from broker_ctl.embedded.users import USER_FILE, sasl_user

    home = directory or _default_directory(nodes)
    extras = sasl_user(home)
    ensemble = Ensemble.of(home, int(nodes), first_port=port, heap_mb=heap, extras=extras)
    click.echo(f"starting {nodes} ZooKeeper server(s) in {home}")
    click.echo(f"identity of daemons: zookeeperSaslDigestFile={home / USER_FILE}")
    asyncio.run(_run(ensemble))


command.add_command(status)
command.add_command(raise_epoch)
command.add_command(secure)
command.add_command(sign)


def _default_directory(nodes: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local" / "state", "broker-ctl", f"zookeeper-{nodes}")


async def _run(ensemble: "Ensemble") -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(_serve(ensemble), name="serve ZooKeeper")
        # A cancelled child ends its group quietly: after stopping the servers we leave with 0. A
        # second signal cuts the stopping short; the servers then die with this process.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
    click.echo("stopped")


async def _serve(ensemble: "Ensemble") -> None:
    from broker_ctl.embedded.config import TICK_MS

    async with ensemble:
        for server in ensemble.servers:
            role = await server.role()
            click.echo(
                f"  server {server.id}  127.0.0.1:{server.client_port}  pid {server.pid}"
                f"  {role or 'electing'}"
            )
        click.echo("settings of daemons, with a chroot of your choice:")
        click.echo(f"  metadataStoreUrl=zk:{ensemble.connect_string}/CHROOT")
        click.echo(f"  zookeeperTickTimeMillis={TICK_MS}")
        click.echo(f"serving at {ensemble.connect_string}  (Ctrl-C stops it)")
        await ensemble.supervise(click.echo)
