"""``broker-ctl pipeline``: analysis of a cluster's history with Spark."""

from collections.abc import Mapping
from typing import ClassVar, Final

import click

from broker_ctl.cli.runtime.verbs import ImportedVerbs, Verb


class _Verbs(ImportedVerbs):
    places: ClassVar[Mapping[str, Mapping[str, Verb]]] = {
        "Commands": {
            "run": Verb(
                "broker_ctl.cli.pipeline.run:command", "Ingest, profile, size and report in one go."
            ),
            "backtest": Verb(
                "broker_ctl.cli.pipeline.backtest:command",
                "Replay a history under policies and settings.",
            ),
            "compact": Verb(
                "broker_ctl.cli.pipeline.tables:compact", "Merge small files of the tables."
            ),
            "expire": Verb(
                "broker_ctl.cli.pipeline.tables:expire", "Delete old days of the tables."
            ),
            "import": Verb(
                "broker_ctl.cli.pipeline.imports:command", "Make a history of recorded metrics."
            ),
            "ingest": Verb("broker_ctl.cli.pipeline.tables:ingest", "Load a history into tables."),
            "profile": Verb(
                "broker_ctl.cli.pipeline.profile:command", "Compute profiles of a history."
            ),
            "readmit": Verb(
                "broker_ctl.cli.pipeline.tables:readmit", "Judge the quarantine again."
            ),
            "recommend": Verb(
                "broker_ctl.cli.pipeline.recommend:command",
                "Recommend settings and a placement plan.",
            ),
            "report": Verb(
                "broker_ctl.cli.pipeline.report:command",
                "Write an HTML report of a cluster's history.",
            ),
            "size": Verb(
                "broker_ctl.cli.pipeline.synth:size", "Advise on the size for the weekly peak."
            ),
            "synth": Verb(
                "broker_ctl.cli.pipeline.synth:synth", "Synthesise a history from scenarios."
            ),
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
