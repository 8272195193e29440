"""``broker-ctl partitions adopt``: assign the missing topic_id of a topic."""

from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import (
    counted,
    done,
    ids_text,
    judged,
    named,
    preview,
    topic_path,
)
from broker_ctl.cli.runtime.confirmation import act_options, is_wanted, say
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
@act_options
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
    told = target.run(lambda client: judged(client, "PUT", path, body))
    if not target.is_json:
        _preview(told)
    given = told["topic_id"]
    what = f"{topic} with {counted(len(told['partitions']), 'partition')} under the"
    under = f"{'new ' if topic_id is None else ''}topic_id {given}"
    sentence = f"adopt {what} {under}; replicas that brokers hold under another are deleted"
    if is_wanted(target, sentence, dry_run=dry_run, yes=yes, **told):
        # What was shown is written.
        told = target.run(lambda client: done(client, "PUT", path, {"topic_id": given}))
        say(target, "adopted", f"adopted {what} {under}; it is being led", **told)


def _preview(told: dict[str, Any]) -> None:
    preview(
        ("partition", "replicas", "state", "leader", "in sync", "leader epoch"),
        [_found(row) for row in told["partitions"]],
    )
    dead = ids_text(told["dead"])
    click.echo(f"brokers {ids_text(told['brokers'])}" + (f"; not there: {dead}" if dead else ""))
    click.echo("Under which topic_id brokers hold replicas of it no daemon tells.")


def _found(row: dict[str, Any]) -> tuple[object, ...]:
    whose, replicas = _STATES[row["state"]], ids_text(row["replicas"])
    if not row["isr"]:
        return named(row), replicas, whose, "", "", ""
    leader = row["leader"] if row["leader"] >= 0 else "none"
    return named(row), replicas, whose, leader, ids_text(row["isr"]), row["leader_epoch"]
