"""``broker-ctl pipeline``: analysis of a cluster's history with Spark."""

from collections.abc import Mapping
from typing import ClassVar, Final

import click

from broker_ctl.cli.runtime.verbs import ImportedVerbs


class _Verbs(ImportedVerbs):
    places: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "Commands": {
            "run": "broker_ctl.cli.pipeline.run:command",
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
    }


_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline run /var/lib/broker-ctl/history --to study
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
