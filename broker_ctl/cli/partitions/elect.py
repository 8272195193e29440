"""``broker-ctl elect``: leaders of replicated partitions, by order of an operator."""

from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import (
    PARTITIONS,
    PartitionName,
    counted,
    done,
    judged,
    named,
    preview,
)
from broker_ctl.cli.runtime.confirmation import act_options, is_wanted, say
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
    """Elect leaders. The controller elects by itself when one dies: this is for the rest."""


@command.command(epilog=_EXAMPLES)
@click.argument("partitions", nargs=-1, type=PartitionName(), metavar=f"[{_NAMED}]...")
@act_options
@daemon_options
def preferred(
    target: Target, *, partitions: tuple[dict[str, Any], ...], dry_run: bool, yes: bool
) -> None:
    """Give leadership back to the first replica, where that one is alive and in sync.

    Without partitions: wherever another one leads.
    """
    _elect(target, "preferred", list(partitions), dry_run=dry_run, yes=yes)


@command.command(epilog=_EXAMPLES)
@click.argument("partitions", nargs=-1, type=PartitionName(), required=True, metavar=f"{_NAMED}...")
@act_options
@daemon_options
def unclean(
    target: Target, *, partitions: tuple[dict[str, Any], ...], dry_run: bool, yes: bool
) -> None:
    """Let a replica lead that is not in sync, where none that is in sync is alive.

    RECORDS ARE LOST: all that this replica does not have, also if those that have it come back.
    """
    _elect(target, "unclean", list(partitions), dry_run=dry_run, yes=yes)


def _elect(
    target: Target, kind: str, partitions: list[dict[str, Any]], *, dry_run: bool, yes: bool
) -> None:
    body = {"kind": kind, "partitions": partitions}
    rows = target.run(lambda client: judged(client, "POST", _ELECTIONS, body))["partitions"]
    electable = {named(row) for row in rows if not row["reason"]}
    if rows and not target.is_json:
        preview(("partition", "leader now", "leader then", "note"), [_cells(row) for row in rows])
    if not electable:
        say(target, "nothing", "no leader would change", partitions=rows)
        return
    count = counted(len(electable), f"{kind} leader")
    if not is_wanted(target, f"elect {count}", dry_run=dry_run, yes=yes, partitions=rows):
        return
    # As it was judged: all that would change may be more than a request can name.
    rows = target.run(lambda client: done(client, "POST", _ELECTIONS, body))["partitions"]
    elected = [row for row in rows if not row["reason"]]
    refused = [row for row in rows if row["reason"] and named(row) in electable]
    sentence = f"elected {counted(len(elected), f'{kind} leader')}"
    if refused:
        # The cluster is not any more what it was when it was judged.
        sentence += "; not: " + ", ".join(f"{named(row)} ({row['reason']})" for row in refused)
    say(target, "elected", sentence, partitions=rows)
    if refused:
        raise SystemExit(1)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    before, then = (broker if broker >= 0 else "none" for broker in (row["before"], row["leader"]))
    return named(row), before, then, row["reason"]
