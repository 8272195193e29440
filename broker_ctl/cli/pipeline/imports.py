"""``broker-ctl pipeline import``: a history of what others have recorded."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.output import Output, Time, echo_json, output_option, print_facts
from broker_ctl.cli.runtime.secret_files import cleartext_option, read_secret_file, require_private
from broker_ctl.cli.runtime.verbs import VerbGroup, needing
from broker_ctl.clock import SystemClock

if TYPE_CHECKING:
    from broker_ctl.http_client import HttpClient
    from broker_ctl.pipeline.importing.job import Imported, ImportRules
    from broker_ctl.pipeline.importing.series import Recording
    from broker_ctl.pipeline.importing.snapshot import Snapshot

_TIMEOUT_S: Final = 120.0
_MAX_BODY_BYTES: Final = 512 * 1024 * 1024
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_STEPS: Final = (10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600)
_EXAMPLES: Final = """\b
Examples:
  broker-ctl pipeline import prometheus http://localhost:9090 history --cluster east
  broker-ctl pipeline import prometheus https://metrics.example/prometheus history --cluster east \\
      --since 2026-11-01T00:00Z --token-file /etc/broker-ctl/prometheus.token
  broker-ctl pipeline import prometheus http://localhost:9090 history --cluster east --bundles 16
  broker-ctl pipeline import prometheus saved/ history --cluster east
"""


@click.group(
    name="import",
    cls=VerbGroup,
    epilog=_EXAMPLES,
)
def command() -> None:
    """Make a history of what others have recorded of a Pulsar cluster.

    Its segments have the form of those that daemons write.
    """


@command.command(name="prometheus", short_help="Import Pulsar's metrics.", epilog=_EXAMPLES)
@click.argument("source")
@click.argument("history", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cluster", required=True, metavar="NAME", help="Name of the cluster.")
@click.option(
    "--all-series",
    is_flag=True,
    help="Read series of any cluster; otherwise their label cluster must be NAME.",
)
@click.option(
    "--since", type=Time(), help="Begin here.  [default: a week ago, or the first sample]"
)
@click.option("--until", type=Time(), help="End here.  [default: now, or the last sample]")
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
@cleartext_option("a Prometheus")
@output_option()
def import_prometheus(
    *,
    source: str,
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
    """Read Pulsar's metrics from a Prometheus or from files, and write segments to HISTORY.

    SOURCE is the URL of a Prometheus (http:// or https://), or a file or directory with saved
    results of queries: CSV (.csv, .csv.gz) or Parquet with the columns metric, timestamp and value,
    and one for each label.

    Rates of bundles are read if they were recorded (exposeBundlesMetricsInPrometheus); otherwise
    those of topics are added up by bundle, for namespaces of --bundles equal bundles. Whole hours
    are imported; an hour that is imported again replaces itself. Caches, decisions, sessions and
    capacities are not recorded: the profiles of those stay empty, and brokers count as equal.
    """
    from broker_ctl.pipeline.importing.job import ImportRules

    label = None if all_series else cluster
    is_server = source.startswith(("http://", "https://"))
    snapshot = None if is_server else _open_snapshot(source, label)
    first_ms, end_ms = _times(snapshot, since, until)
    rules = ImportRules(
        first_ms=first_ms,
        end_ms=end_ms,
        step_ms=int(step_s) * 1000,
        cluster=cluster,
        assumed_usage=assumed_usage / 100,
        bundles=bundles,
    )
    token = None if token_file is None else _read_token(token_file, source)
    hours = asyncio.run(_imported(snapshot or source, label, history, token, rules))
    _show(hours, Output(output))
    if not any(each.cycles for each in hours):
        raise click.ClickException(
            f"{source} has no Pulsar metrics of cluster {cluster} in this time: see --since,"
            " --cluster and --all-series"
        )


def _read_token(path: Path, url: str) -> str:
    require_private(url)
    token = read_secret_file(path, "--token-file").decode(errors="replace").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise click.BadParameter(f"{path} does not contain a token", param_hint="--token-file")
    return token


def _open_snapshot(path: str, cluster: str | None) -> "Snapshot":
    with needing("pipeline", "an import of files"):
        from broker_ctl.pipeline.importing.snapshot import Snapshot

    return Snapshot(Path(path), cluster)


def _times(snapshot: "Snapshot | None", since: int | None, until: int | None) -> tuple[int, int]:
    """What is imported, from and to."""
    now_ms = SystemClock().wall_ms()
    if snapshot is not None and (ends_ms := snapshot.ends_ms) is not None:
        # The hour of the last sample is imported, although it may not be whole.
        last_ms = (ends_ms[1] // _HOUR_MS + 1) * _HOUR_MS
        first_ms = ends_ms[0] // _HOUR_MS * _HOUR_MS
        return first_ms if since is None else since, last_ms if until is None else until
    end_ms = min(now_ms if until is None else until, now_ms)
    return end_ms - 7 * _DAY_MS if since is None else since, end_ms


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
    source: "str | Snapshot",
    label: str | None,
    history: Path,
    token: str | None,
    rules: "ImportRules",
) -> "list[Imported]":
    from broker_ctl.http_client import HttpClient
    from broker_ctl.pipeline.importing.job import import_hours

    done = []
    async with HttpClient(
        token=token, timeout_s=_TIMEOUT_S, max_body_bytes=_MAX_BODY_BYTES
    ) as client:
        recording = _open_server(client, source, label) if isinstance(source, str) else source
        async for each in import_hours(recording, history, rules):
            done.append(each)
            hour = datetime.fromtimestamp(each.start_ms / 1000, UTC)
            click.echo(f"{hour:%Y-%m-%dT%H:%MZ} {each.rows} rows", err=True)
    return done


def _open_server(client: "HttpClient", url: str, label: str | None) -> "Recording":
    from broker_ctl.pipeline.importing.series import Prometheus, SeriesSource

    return Prometheus(client, SeriesSource(url, label))
