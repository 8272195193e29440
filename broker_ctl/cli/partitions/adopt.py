"""``broker-ctl partitions adopt``: assign the missing topic_id of a topic."""

from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import (
    count_text,
    ids_text,
    partition_name,
    preview,
    topic_path,
)
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo
from broker_ctl.cli.runtime.target import Target, daemon_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions adopt orders --dry-run
  broker-ctl partitions adopt orders --topic-id 5f0c7a9d2b4e4f7f8a1c3d5e7f90a1b2
  broker-ctl partitions adopt orders --yes --output json
"""
_STATES: Final = {"kafka": "Kafka's", "broker-ctl": "broker-ctl's", "none": "none: never led"}


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@click.option(
    "--topic-id",
    metavar="ID",
    help="topic_id under which brokers store its replicas.  [default: a new one]",
)
@change_options
@daemon_options
def command(target: Target, *, topic: str, topic_id: str | None, dry_run: bool, yes: bool) -> None:
    """Assign the topic_id that the node of TOPIC in ZooKeeper lacks, and elect its leaders.

    For topics that already had leaders: under Kafka before 2.8, or before their nodes were
    rewritten. The controller assigns ids to all other topics automatically. Partition states in
    Kafka's layout are kept. Daemons do not report the id of stored replicas; the operator must know
    it, because brokers delete replicas stored under another id. Omit --topic-id if no broker
    process stores any replica of TOPIC.
    """
    path = f"{topic_path(topic)}/topic-id"
    body = {} if topic_id is None else {"topic_id": topic_id}
    topic_state = send_dry_run(target, Change("PUT", path, body=body))
    if not target.is_json:
        _preview(topic_state)
    given = topic_state["topic_id"]
    what = f"{topic} with {count_text(len(topic_state['partitions']), 'partition')} under the"
    under = f"{'new ' if topic_id is None else ''}topic_id {given}"
    sentence = f"adopt {what} {under}; replicas that brokers store under another id are deleted"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, **topic_state):
        # Send the id that was shown.
        topic_state = send(target, Change("PUT", path, body={"topic_id": given})).json()
        report_result(
            target,
            "adopted",
            f"adopted {what} {under}; the controller elects its leaders",
            **topic_state,
        )


def _preview(topic_state: dict[str, Any]) -> None:
    preview(
        ("partition", "replicas", "state", "leader", "in sync", "leader epoch"),
        [_cells(row) for row in topic_state["partitions"]],
    )
    dead = ids_text(topic_state["dead"])
    echo(f"brokers {ids_text(topic_state['brokers'])}" + (f"; not alive: {dead}" if dead else ""))
    echo("No daemon reports the topic_id under which brokers store replicas of this topic.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    whose, replicas = _STATES[row["state"]], ids_text(row["replicas"])
    if not row["isr"]:
        return partition_name(row), replicas, whose, "", "", ""
    leader = row["leader"] if row["leader"] >= 0 else "none"
    return partition_name(row), replicas, whose, leader, ids_text(row["isr"]), row["leader_epoch"]
