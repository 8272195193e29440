"""``broker-ctl elect``: leader elections of replicated partitions by hand."""

from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import (
    PARTITIONS,
    PartitionName,
    count_text,
    partition_name,
    preview,
)
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_ELECTIONS: Final = f"{PARTITIONS}/elections"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl elect preferred
  broker-ctl elect preferred orders-0 orders-7 --yes
  broker-ctl elect unclean orders-3 --dry-run
"""
_NAMED: Final = "TOPIC-PARTITION"


@click.group(cls=VerbGroup, short_help="Elect leaders of replicated partitions.", epilog=_EXAMPLES)
def command() -> None:
    """Elect leaders by hand; the controller replaces dead leaders automatically."""


@command.command(epilog=_EXAMPLES)
@click.argument("partitions", nargs=-1, type=PartitionName(), metavar=f"[{_NAMED}]...")
@change_options
@daemon_options
def preferred(
    target: Target, *, partitions: tuple[dict[str, Any], ...], dry_run: bool, yes: bool
) -> None:
    """Move leadership back to the preferred (first) replica if it is alive and in sync.

    Without partitions: for all partitions led by another replica.
    """
    _elect(target, "preferred", list(partitions), dry_run=dry_run, yes=yes)


@command.command(epilog=_EXAMPLES)
@click.argument("partitions", nargs=-1, type=PartitionName(), required=True, metavar=f"{_NAMED}...")
@change_options
@daemon_options
def unclean(
    target: Target, *, partitions: tuple[dict[str, Any], ...], dry_run: bool, yes: bool
) -> None:
    """Elect a replica outside the ISR if no in-sync replica is alive.

    RECORDS ARE LOST: those that the new leader lacks, even if the other replicas return later.
    """
    _elect(target, "unclean", list(partitions), dry_run=dry_run, yes=yes)


def _elect(
    target: Target, kind: str, partitions: list[dict[str, Any]], *, dry_run: bool, yes: bool
) -> None:
    body = {"kind": kind, "partitions": partitions}
    rows = send_dry_run(target, Change("POST", _ELECTIONS, body=body))["partitions"]
    electable = {partition_name(row) for row in rows if not row["reason"]}
    if rows and not target.is_json:
        preview(
            ("partition", "current leader", "new leader", "note"), [_cells(row) for row in rows]
        )
    if not electable:
        report_result(target, "nothing", "no leader would change", partitions=rows)
        return
    count = count_text(len(electable), f"{kind} leader")
    if not confirm(target, f"elect {count}", dry_run=dry_run, yes=yes, partitions=rows):
        return
    # The body of the dry run: the partitions that change may be too many to name in a request.
    rows = send(target, Change("POST", _ELECTIONS, body=body)).json()["partitions"]
    elected = [row for row in rows if not row["reason"]]
    refused = [row for row in rows if row["reason"] and partition_name(row) in electable]
    sentence = f"elected {count_text(len(elected), f'{kind} leader')}"
    if refused:
        # The cluster has changed since the dry run.
        sentence += "; not: " + ", ".join(
            f"{partition_name(row)} ({row['reason']})" for row in refused
        )
    report_result(target, "elected", sentence, partitions=rows)
    if refused:
        raise SystemExit(1)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    before, then = (broker if broker >= 0 else "none" for broker in (row["before"], row["leader"]))
    return partition_name(row), before, then, row["reason"]
