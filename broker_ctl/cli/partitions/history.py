"""``broker-ctl partitions history``: changes of leaders and ISRs, with times and reasons."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import PARTITIONS, ids_text, partition_in, partition_name
from broker_ctl.cli.runtime.output import echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.units import time_text

_COLUMNS: Final = ("when", "partition", "leader", "leader epoch", "in sync", "why")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions history
  broker-ctl partitions history orders --limit 200
  broker-ctl partitions history orders-3
  broker-ctl partitions history orders --partition 3 --output json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("topic", required=False, metavar="[TOPIC|TOPIC-PARTITION]")
@click.option(
    "--partition", type=click.IntRange(0), help="Only changes of this partition of TOPIC."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@daemon_options
def command(target: Target, *, topic: str | None, partition: int | None, limit: int) -> None:
    """Show recent changes of leaders and ISRs by the controller, one a line, newest first.

    TOPIC-PARTITION is one partition, unless a topic of that name has changed.
    The controller's daemon keeps the newest ten thousand changes since its start; changes by an
    earlier controller are in that daemon's log, and in its history if loadHistoryDirectory is set.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition requires TOPIC")
    rows = _read(target, topic, partition, limit)
    named = None if topic is None or partition is not None else partition_in(topic)
    if not rows and named is not None:
        rows = _read(target, named["topic"], named["partition"], limit)
    if target.is_json:
        echo_json(rows)
    else:
        print_transitions(rows)


def print_transitions(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print transitions as a table."""
    print_table("", _COLUMNS, map(_cells, rows))


def _read(target: Target, topic: str | None, partition: int | None, limit: int) -> Any:
    wanted = {"topic": topic, "partition": partition, "limit": limit}
    query = {name: str(value) for name, value in wanted.items() if value is not None}
    return target.run(lambda client: client.get(f"{PARTITIONS}/transitions", query))


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    before, leader = (_leader(row[name]) for name in ("before", "leader"))
    return (
        time_text(row["at_ms"]),
        partition_name(row),
        leader if leader == before else f"{before} -> {leader}",
        row["leader_epoch"],
        ids_text(row["isr"]),
        row["reason"],
    )


def _leader(broker_id: int) -> str:
    return "none" if broker_id < 0 else str(broker_id)
