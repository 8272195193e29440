"""``broker-ctl status``: the state of a broker, or of the cluster as its leader sees it."""

from typing import Any, Final

import click

from broker_ctl.cli.runtime.output import echo_json, escape_values, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.watching import is_on_screen

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
@daemon_options
def command(target: Target, *, cluster: bool) -> None:
    """Show session, lease, leadership, bundles and the newest decisions of a broker."""
    path = _CLUSTER if cluster else _STATUS
    state = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(state)
    elif is_on_screen():
        _draw(state)
    else:
        _show(state)


def _draw(state: dict[str, Any]) -> None:
    from rich.console import Console

    from broker_ctl.cli.cluster.status_screen import render

    console = Console()
    console.print(render(escape_values(state), console.height))


def _show(state: dict[str, Any]) -> None:
    if "journal" in state:
        # The journal of a broker; the overview of the cluster has decisions instead.
        journal = [entry | entry["decision"] for entry in state["journal"]]
        state = {name: part for name, part in state.items() if name != "journal"}
        state["latest decisions"] = journal
    print_facts(str(state.get("broker", "cluster")), state)
