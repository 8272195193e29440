"""``broker-ctl status``: the state of a broker, or of the cluster as its leader sees it."""

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json, escape_values, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_PERIOD_S: Final = 2.0
_STATUS: Final = "/control/v1/status"
_CLUSTER: Final = "/control/v1/cluster"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl status
  broker-ctl status --watch
  broker-ctl status --cluster --url http://broker-2:8080
  broker-ctl status --output json
"""


@click.command(short_help="Show the state of a broker or of the cluster.", epilog=_EXAMPLES)
@click.option("--cluster", is_flag=True, help="Show the whole cluster, as its leader sees it.")
@click.option("--watch", is_flag=True, help="Refresh every two seconds until Ctrl-C.")
@daemon_options
def command(target: Target, *, cluster: bool, watch: bool) -> None:
    """Show session, lease, leadership, bundles and the newest decisions of a broker."""
    path = _CLUSTER if cluster else _STATUS
    if not watch:
        _show(target, target.run(lambda client: client.get(path)))
        return
    with suppress(KeyboardInterrupt):
        target.run(lambda client: _watch(target, client, path))


async def _watch(target: Target, client: "Client", path: str) -> None:
    from broker_ctl.errors import HttpError

    is_tty = sys.stdout.isatty()
    while True:
        try:
            state = await client.get(path)
        except HttpError as error:
            # Go on: the daemon may come back.
            echo(str(error), err=True)
        else:
            if target.is_json or not is_tty:
                _show(target, state)
            else:
                _redraw(state)
        await asyncio.sleep(_PERIOD_S)


def _redraw(state: dict[str, Any]) -> None:
    from rich.console import Console

    from broker_ctl.cli.cluster.status_screen import render

    console = Console()
    click.clear()
    console.print(render(escape_values(state), console.height))


def _show(target: Target, state: dict[str, Any]) -> None:
    if target.is_json:
        echo_json(state)
        return
    if "journal" in state:
        # The journal of a broker; the overview of the cluster has decisions instead.
        journal = [entry | entry["decision"] for entry in state["journal"]]
        state = {name: part for name, part in state.items() if name != "journal"}
        state["latest decisions"] = journal
    print_facts(str(state.get("broker", "cluster")), state)
