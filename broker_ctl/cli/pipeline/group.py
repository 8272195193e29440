"""``broker-ctl pipeline``: analysis of a cluster's history with Spark."""

import importlib
from typing import Final

import click

from broker_ctl.cli.runtime.verbs import VerbGroup, finish_command

# Verb -> module and name of its command; imported when it is needed.
_VERBS: Final = {
    "backtest": "broker_ctl.cli.pipeline.backtest:command",
    "compact": "broker_ctl.cli.pipeline.tables:compact",
    "expire": "broker_ctl.cli.pipeline.tables:expire",
    "import": "broker_ctl.cli.pipeline.imports:command",
    "ingest": "broker_ctl.cli.pipeline.tables:ingest",
    "profile": "broker_ctl.cli.pipeline.profile:command",
    "readmit": "broker_ctl.cli.pipeline.tables:readmit",
    "recommend": "broker_ctl.cli.pipeline.recommend:command",
    "report": "broker_ctl.cli.pipeline.report:command",
    "size": "broker_ctl.cli.pipeline.synth:size",
    "synth": "broker_ctl.cli.pipeline.synth:synth",
}


class _Verbs(VerbGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_VERBS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _VERBS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return finish_command(command)


_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline ingest /var/lib/broker-ctl/history --tables tables
  broker-ctl pipeline profile tables --to profiles
  broker-ctl pipeline report profiles --tables tables --to report.html
"""


@click.group(name="pipeline", cls=_Verbs, epilog=_EXAMPLES)
def command() -> None:
    """Analyse the history that daemons write.

    The input is loadHistoryDirectory of the daemons. Jobs run on Spark, on this machine or on a
    cluster (--master). They need Java 17 or newer and: pip install 'broker-ctl[pipeline]'
    """
