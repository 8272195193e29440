"""``broker-ctl partitions explain``: why a partition has its leader."""

from collections.abc import Mapping
from typing import Any, Final

import click

from broker_ctl.cli.partitions.history import print_transitions
from broker_ctl.cli.partitions.params import PARTITIONS, PartitionName, partition_name
from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options

_REPLICAS: Final = ("replica", "broker", "in sync", "role")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions explain orders-3
  broker-ctl partitions explain orders-3 --output json
"""


@click.command(short_help="Show why a partition has its leader.", epilog=_EXAMPLES)
@click.argument("partition", type=PartitionName(), metavar="TOPIC-PARTITION")
@daemon_options
def command(target: Target, *, partition: dict[str, Any]) -> None:
    """Show why TOPIC-PARTITION has its leader or none, its replicas, and its newest changes."""
    query = {"topic": partition["topic"], "partition": str(partition["partition"])}
    found = target.run(lambda client: client.get(f"{PARTITIONS}/explain", query))
    if target.is_json:
        echo_json(found)
        return
    for reason in found["reasons"]:
        echo(reason)
    shown = ("leader", "leader_epoch", "controller_epoch", "min_isr", "unclean")
    print_facts(partition_name(found), {name: found[name] for name in shown})
    print_table("", _REPLICAS, map(_cells, found["replicas"]))
    if found["changes"]:
        print_transitions(found["changes"])


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    roles = ("leader", "preferred", "adding", "removing")
    held = ", ".join(role for role in roles if row[f"is_{role}"])
    return row["broker"], row["status"], row["is_in_sync"], held
