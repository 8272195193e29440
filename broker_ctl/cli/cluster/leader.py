"""``broker-ctl leader``: the leader of the load balancer."""

from typing import Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl leader show
  broker-ctl leader show --output json
  broker-ctl leader
"""


class _ShowByDefault(VerbGroup):
    """Runs `show` if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `show` before its options; completion still offers the subcommands."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault, short_help="Show which broker leads.", epilog=_EXAMPLES)
def command() -> None:
    """Show the leader: the broker that places, sheds and splits the bundles of all brokers.

    Without a subcommand, `broker-ctl leader` does the same as `broker-ctl leader show`.
    """


@command.command(epilog=_EXAMPLES)
@daemon_options
def show(target: Target) -> None:
    """Show the broker id and the URL of the leader."""
    leader = target.run(lambda client: client.get("/admin/v2/brokers/leaderBroker"))
    if target.is_json:
        echo_json(leader)
    else:
        echo(f"{leader['brokerId']}  {leader['serviceUrl']}")
