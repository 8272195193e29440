"""``broker-ctl pipeline import``: a history of what others have recorded."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.formats import Output, output_option
from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.times import Time
from broker_ctl.cli.runtime.verb_help import VerbGroup
from broker_ctl.clock import SystemClock

if TYPE_CHECKING:
    from broker_ctl.pipeline.importing.job import Imported, ImportRules
    from broker_ctl.pipeline.importing.prometheus import Source

_TIMEOUT_S: Final = 120.0
_MAX_BODY_BYTES: Final = 512 * 1024 * 1024
_DAY_MS: Final = 24 * 3_600_000
_STEPS: Final = (10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600)
_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline import prometheus http://localhost:9090 history --cluster east
  broker-ctl pipeline import prometheus https://metrics.example/prometheus history --cluster east \\
      --since 2026-11-01T00:00Z --token-file /etc/broker-ctl/prometheus.token
  broker-ctl pipeline import prometheus http://localhost:9090 history --cluster east --bundles 16
"""


@click.group(
    name="import",
    cls=VerbGroup,
    short_help="Make a history of recorded metrics.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Make a history of what others have recorded of a Pulsar cluster.

    Its segments have the form of those that daemons write.
    """


@command.command(name="prometheus", short_help="Import Pulsar's metrics.", epilog=_EXAMPLES)
@click.argument("url")
@click.argument("history", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cluster", required=True, metavar="NAME", help="Name of the cluster.")
@click.option(
    "--all-series",
    is_flag=True,
    help="Read series of any cluster; otherwise their label cluster must be NAME.",
)
@click.option("--since", type=Time(), help="Begin here.  [default: a week ago]")
@click.option("--until", type=Time(), help="End here.  [default: now]")
@click.option(
    "--step",
    "step_s",
    type=click.Choice([str(step) for step in _STEPS]),
    default="60",
    show_default=True,
    help="Interval of the rows in seconds.",
)
@click.option(
    "--bundles",
    type=click.IntRange(min=1, max=1 << 20),
    default=4,
    show_default=True,
    help="Bundles per namespace, if only topics were recorded.",
)
@click.option(
    "--assumed-usage",
    type=click.FloatRange(min=1, max=100),
    default=50.0,
    show_default=True,
    metavar="PERCENT",
    help="Mean usage of the brokers, if pulsar_lb_cpu_usage was not recorded.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the bearer token of the server.",
)
@output_option()
def import_prometheus(
    *,
    url: str,
    history: Path,
    cluster: str,
    all_series: bool,
    since: int | None,
    until: int | None,
    step_s: str,
    bundles: int,
    assumed_usage: float,
    token_file: Path | None,
    output: str,
) -> None:
    """Read Pulsar's metrics from the Prometheus at URL, and write segments to HISTORY.

    Rates of bundles are read if they were recorded (exposeBundlesMetricsInPrometheus); otherwise
    those of topics are added up by bundle, for namespaces of --bundles equal bundles. Whole hours
    are imported; an hour that is imported again replaces itself. Caches, decisions, sessions and
    capacities are not recorded: the profiles of those stay empty, and brokers count as equal.
    """
    from broker_ctl.pipeline.importing.job import ImportRules
    from broker_ctl.pipeline.importing.prometheus import Source

    now_ms = SystemClock().wall_ms()
    end_ms = now_ms if until is None else until
    rules = ImportRules(
        first_ms=end_ms - 7 * _DAY_MS if since is None else since,
        end_ms=min(end_ms, now_ms),
        step_ms=int(step_s) * 1000,
        cluster=cluster,
        assumed_usage=assumed_usage / 100,
    )
    token = None if token_file is None else token_file.read_text().strip()
    source = Source(url, None if all_series else cluster, bundles)
    hours = asyncio.run(_imported(source, history, token, rules))
    _show(hours, Output(output))
    if not any(each.cycles for each in hours):
        raise click.ClickException(
            f"{url} has no Pulsar metrics of cluster {cluster} in this time: see --since,"
            " --cluster and --all-series"
        )


def _show(hours: "list[Imported]", output: Output) -> None:
    facts = {
        "hours": len(hours),
        "empty_hours": sum(not each.cycles for each in hours),
        "cycles": sum(each.cycles for each in hours),
        "segments": sum(each.segments for each in hours),
        "rows": sum(each.rows for each in hours),
    }
    if output is Output.JSON:
        echo_json(facts)
    else:
        print_facts("", facts)


async def _imported(
    source: "Source", history: Path, token: str | None, rules: "ImportRules"
) -> "list[Imported]":
    from broker_ctl.http_client import HttpClient
    from broker_ctl.pipeline.importing.job import import_hours
    from broker_ctl.pipeline.importing.prometheus import Prometheus

    done = []
    async with HttpClient(
        token=token, timeout_s=_TIMEOUT_S, max_body_bytes=_MAX_BODY_BYTES
    ) as client:
        async for each in import_hours(Prometheus(client, source), history, rules):
            done.append(each)
            hour = datetime.fromtimestamp(each.start_ms / 1000, UTC)
            click.echo(f"{hour:%Y-%m-%dT%H:%MZ} {each.rows} rows", err=True)
    return done
