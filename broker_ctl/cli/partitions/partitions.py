"""``broker-ctl partitions``: replicated topics and their replicas."""

from typing import Any, Final

import click

from broker_ctl.cli.partitions.adopt import command as adopt
from broker_ctl.cli.partitions.explain import command as explain
from broker_ctl.cli.partitions.history import command as history
from broker_ctl.cli.partitions.params import (
    TOPICS,
    Replicas,
    count_text,
    ids_text,
    lists_of,
    partition_name,
    preview,
    topic_path,
)
from broker_ctl.cli.partitions.reassign import command as reassign
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions create orders --partitions 12 --replication-factor 3 --min-isr 2
  broker-ctl partitions create audit --replicas 0:1,2,3 --replicas 1:2,3,1
  broker-ctl partitions list
  broker-ctl partitions describe orders
  broker-ctl partitions explain orders-3
  broker-ctl partitions history orders-3
  broker-ctl partitions grow orders --partitions 24 --dry-run
  broker-ctl partitions alter orders --min-isr 2 --no-unclean
  broker-ctl partitions delete orders
  broker-ctl partitions reassign plan orders --brokers 2,3,4 --out moves.json
"""
_LISTED: Final = (
    ("topic", "topic"),
    ("partitions", "partitions"),
    ("offline", "offline"),
    ("under-replicated", "under_replicated"),
    ("under min ISR", "under_min_isr"),
    ("on too few racks", "rack_violations"),
    ("moving", "reassigning"),
    ("being deleted", "is_deleting"),
)
# The most that a daemon accepts in one request.
_PARTITIONS: Final = click.IntRange(1, 10_000)
_REPLICAS: Final = click.option(
    "--replicas",
    type=Replicas(),
    multiple=True,
    metavar="PARTITION:BROKER,BROKER",
    help="Replicas of one partition as broker ids, the preferred one first; once per partition.",
)


@click.group(
    cls=VerbGroup, short_help="Create, show and move replicated partitions.", epilog=_EXAMPLES
)
def command() -> None:
    """Manage replicated topics, whose partitions have replicas on brokers with a brokerId."""


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@_REPLICAS
@click.option(
    "--partitions", type=_PARTITIONS, help="Number of partitions, spread over the live brokers."
)
@click.option(
    "--replication-factor", type=click.IntRange(1), help="Number of replicas of each partition."
)
@click.option(
    "--min-isr",
    type=click.IntRange(0),
    default=0,
    help="Minimum number of in-sync replicas for a commit.  [default: minInSyncReplicas]",
)
@click.option(
    "--unclean/--no-unclean",
    default=None,
    help=(
        "Allow or forbid leaders outside the ISR, which lose records.  [default: "
        "uncleanLeaderElectionEnable]"
    ),
)
@change_options
@daemon_options
def create(
    target: Target,
    *,
    topic: str,
    replicas: tuple[tuple[str, list[int]], ...],
    partitions: int | None,
    replication_factor: int | None,
    min_isr: int,
    unclean: bool | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Create TOPIC; returns once its partitions have leaders.

    Replicas are given with --replicas, or spread evenly over the live brokers.
    """
    if bool(replicas) == bool(partitions) or bool(partitions) != bool(replication_factor):
        raise click.UsageError(
            "either --replicas, or --partitions and --replication-factor are required"
        )
    rules = {"min_isr": min_isr, "unclean": unclean}
    body: dict[str, Any] = {**rules, "replicas": lists_of(replicas)}
    if not replicas:
        body = {**rules, "partitions": partitions, "replication_factor": replication_factor}
    path = topic_path(topic)
    rows = send_dry_run(target, Change("PUT", path, body=body))["partitions"]
    _preview(target, rows)
    sentence = f"create {topic} with {count_text(len(rows), 'partition')}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        # Send the replicas that were shown, even if brokers have come or gone since.
        body = {**rules, "replicas": _replica_lists(rows)}
        send(target, Change("PUT", path, body=body))
        made = f"created {topic} with {count_text(len(rows), 'partition')}"
        report_result(target, "created", made, partitions=rows)


@command.command(name="list", epilog=_EXAMPLES)
@click.option("--offline", is_flag=True, help="Only topics with partitions without a leader.")
@click.option("--under-replicated", is_flag=True, help="Only topics with replicas outside the ISR.")
@click.option("--under-min-isr", is_flag=True, help="Only topics with partitions under min ISR.")
@click.option("--rack-violations", is_flag=True, help="Only topics with replicas on too few racks.")
@daemon_options
def list_(target: Target, /, **filters: bool) -> None:
    """List replicated topics with their unhealthy partitions; filters are combined with or."""
    wanted = [name for name, is_given in filters.items() if is_given]
    found = target.run(lambda client: client.get(TOPICS))
    rows = [row for row in found if not wanted or any(row[name] for name in wanted)]
    if target.is_json:
        echo_json(rows)
        return
    columns = [column for column, _ in _LISTED]
    print_table("", columns, ([row[name] for _, name in _LISTED] for row in rows))


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def describe(target: Target, *, topic: str) -> None:
    """Show replicas, leader, ISR and epochs of each partition of TOPIC."""
    path = topic_path(topic)
    found = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(found)
        return
    print_facts("", {name: value for name, value in found.items() if name != "partitions"})
    print_table(
        "",
        ("partition", "leader", "replicas", "in sync", "leader epoch", "note"),
        (_partition_cells(row, found["min_isr"]) for row in found["partitions"]),
    )


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@click.option(
    "--partitions", type=click.IntRange(1), required=True, help="Total number of partitions."
)
@_REPLICAS
@change_options
@daemon_options
def grow(
    target: Target,
    *,
    topic: str,
    partitions: int,
    replicas: tuple[tuple[str, list[int]], ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Increase the number of partitions of TOPIC; it cannot be decreased.

    Partitions without --replicas are spread evenly over brokers and racks. Producers that choose a
    partition by message key then send some keys to other partitions.
    """
    path = topic_path(topic)
    body: dict[str, Any] = {"partitions": partitions, "replicas": lists_of(replicas)}
    rows = send_dry_run(target, Change("POST", path, body=body))["partitions"]
    _preview(target, rows)
    sentence = f"add {count_text(len(rows), 'partition')} to {topic}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        body = {"partitions": partitions, "replicas": _replica_lists(rows)}
        send(target, Change("POST", path, body=body))
        report_result(target, "grown", f"{topic} now has {partitions} partitions", partitions=rows)


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@click.option(
    "--min-isr", type=click.IntRange(1), help="Minimum number of in-sync replicas for a commit."
)
@click.option(
    "--unclean/--no-unclean",
    default=None,
    help="Allow or forbid leaders outside the ISR, which lose records.",
)
@click.option(
    "--reset",
    type=click.Choice(["min-isr", "unclean"]),
    multiple=True,
    help="Remove the topic's own value, so that the broker setting applies.",
)
@change_options
@daemon_options
def alter(
    target: Target,
    *,
    topic: str,
    min_isr: int | None,
    unclean: bool | None,
    reset: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the rules of TOPIC; options that are not given keep their values."""
    given = {"min-isr": min_isr, "unclean": unclean}
    changed = [name for name in given if given[name] is not None]
    if not (changed or reset) or set(changed) & set(reset):
        raise click.UsageError(
            "--min-isr, --unclean or --reset is required; --reset excludes options that are given"
        )
    body = {name.replace("-", "_"): given[name] for name in (*changed, *reset)}
    path = f"{topic_path(topic)}/rules"
    result = send_dry_run(target, Change("POST", path, body=body))
    sentence = f"change {topic}: {_rules_change(result)}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, **result):
        result = send(target, Change("POST", path, body=body)).json()
        report_result(target, "altered", f"changed {topic}: {_rules_change(result)}", **result)


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def delete(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Delete TOPIC and all its records.

    The deletion completes once every replica on a live broker is deleted; replicas on a dead broker
    are deleted when it returns.
    """
    path = topic_path(topic)
    count = send_dry_run(target, Change("DELETE", path))["partitions"]
    sentence = f"delete {topic}: {count_text(count, 'partition')}, and all their records"
    if confirm(target, sentence, dry_run=dry_run, yes=yes):
        send(target, Change("DELETE", path))
        report_result(
            target,
            "deleting",
            f"deleting {topic}; broker-ctl partitions list shows it until it is deleted",
        )


command.add_command(adopt, "adopt")
command.add_command(explain, "explain")
command.add_command(history, "history")
command.add_command(reassign, "reassign")


def _preview(target: Target, rows: list[dict[str, Any]]) -> None:
    if not target.is_json:
        preview(
            ("partition", "replicas"),
            [(partition_name(row), ids_text(row["replicas"])) for row in rows],
        )


def _rules_change(result: dict[str, Any]) -> str:
    """The rules of a topic before and after, and the partitions that are then under min ISR."""
    before, after, few = result["before"], result["after"], result["under_min_isr"]
    words = {False: "forbidden", True: "allowed"}
    sentence = (
        f"min ISR {before['min_isr']} -> {after['min_isr']}, unclean elections"
        f" {words[before['unclean']]} -> {words[after['unclean']]}"
    )
    return f"{sentence}; under min ISR: {count_text(few, 'partition')}" if few else sentence


def _replica_lists(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    return {str(row["partition"]): row["replicas"] for row in rows}


def _partition_cells(row: dict[str, Any], min_isr: int) -> tuple[object, ...]:
    return (
        partition_name(row),
        row["leader"] if row["leader"] >= 0 else "none",
        ids_text(row["replicas"]),
        ids_text(row["isr"]),
        row["leader_epoch"],
        _note(row, min_isr),
    )


def _note(row: dict[str, Any], min_isr: int) -> str:
    """Deviations from the healthy state."""
    notes = []
    if row["leader"] < 0:
        notes.append("offline")
    if row["adding"] or row["removing"]:
        adding, removing = ids_text(row["adding"]), ids_text(row["removing"])
        notes.append(f"moving: adding {adding or 'none'}, removing {removing or 'none'}")
    elif len(row["isr"]) < len(row["replicas"]):
        notes.append("under-replicated")
    if len(row["isr"]) < min_isr:
        notes.append(f"under min ISR ({len(row['isr'])} of {min_isr}): nothing is committed")
    if row["is_recovering"]:
        notes.append("elected out of sync: records may be lost")
    if row["is_rack_violation"]:
        notes.append(f"on too few racks ({', '.join(rack or 'unknown' for rack in row['racks'])})")
    return "; ".join(notes)
