"""``broker-ctl history``: recent decisions of the leader and their results."""

from collections.abc import Mapping
from typing import Any, Final

import click

from broker_ctl.cli.runtime.output import echo_json, print_table, sentence_of
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.times import PastTime
from broker_ctl.cli.runtime.units import time_text

_HISTORY: Final = "/control/v1/history"
_KINDS: Final = ("assign", "transfer", "split", "merge", "skip")
_RESULTS: Final = ("done", "failed", "dry_run", "paused", "held_back", "skipped")
_COLUMNS: Final = ("when", "cycle", "result", "decision", "outcome")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl history
  broker-ctl history --kind transfer --since 2h
  broker-ctl history --since 2030-01-31T03:00 --until 2030-01-31T03:20
  broker-ctl history --result failed --since 1d
  broker-ctl history --broker broker-2:8080 --limit 20
  broker-ctl history --bundle shop/orders/0x00000000_0x40000000 --since 1d
  broker-ctl history --bundle shop/orders/0x00000000_0x40000000 --output json
"""


@click.command(short_help="Show recent decisions and their results.", epilog=_EXAMPLES)
@click.option("--kind", type=click.Choice(_KINDS), help="Only decisions of this kind.")
@click.option("--result", type=click.Choice(_RESULTS), help="Only decisions with this result.")
@click.option("--broker", metavar="BROKER", help="Only decisions about this broker.")
@click.option("--bundle", metavar="BUNDLE", help="Only decisions about this bundle.")
@click.option(
    "--since",
    "since_ms",
    type=PastTime(),
    metavar="TIME",
    help="Only from then on: 90s, 15m, 2h or 1d ago, or 2030-01-31T03:00, local or with a zone.",
)
@click.option(
    "--until", "until_ms", type=PastTime(), metavar="TIME", help="Only up to then, likewise."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@daemon_options
def command(
    target: Target,
    *,
    kind: str | None,
    result: str | None,
    broker: str | None,
    bundle: str | None,
    since_ms: int | None,
    until_ms: int | None,
    limit: int,
) -> None:
    """Show recent decisions of the leader, newest first.

    ZooKeeper keeps several thousand decisions that were carried out, across leader changes; skipped
    decisions are those of the current leader only. With loadHistoryDirectory set, segments on the
    disks of the leaders have all decisions.
    """
    subjects = {"broker": broker, "bundle": bundle}
    wanted = {"kind": kind, "result": result, **subjects, "limit": str(limit)}
    query = {name: text for name, text in wanted.items() if text is not None}
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise click.UsageError("--since is after --until")
    moments = {"since_ms": since_ms, "until_ms": until_ms}
    query |= {name: str(at_ms) for name, at_ms in moments.items() if at_ms is not None}
    rows = target.run(lambda client: client.get(_HISTORY, query))
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", _COLUMNS, map(_cells, rows))
        if not rows:
            click.echo("no decision matches", err=True)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    return time_text(row["at_ms"]), row["cycle"], row["result"], sentence_of(row), row["outcome"]
