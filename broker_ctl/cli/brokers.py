"""``broker-ctl brokers``: who is there."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.tables import echo_json, print_table
from broker_ctl.cli.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.client import Client

_BROKERS: Final = "/admin/v2/brokers"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl brokers list
  broker-ctl brokers list --output json
"""


@click.group(short_help="List the live brokers.", epilog=_EXAMPLES)
def command() -> None:
    """Show who is there."""


@command.command(name="list", epilog=_EXAMPLES)
@daemon_options
def list_(target: Target) -> None:
    """List the live brokers; their load is in `broker-ctl status --cluster`."""
    rows = target.run(_rows)
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", ("broker", "leads"), (row.values() for row in rows))


async def _rows(client: "Client") -> list[dict[str, Any]]:
    from broker_ctl.errors import HttpError

    try:
        leader_id = (await client.get(f"{_BROKERS}/leaderBroker"))["brokerId"]
    except HttpError:
        # Nobody leads; a daemon that does not answer fails at the next request.
        leader_id = None
    ids = await client.get(_BROKERS)
    return [{"broker": broker_id, "leads": broker_id == leader_id} for broker_id in ids]
