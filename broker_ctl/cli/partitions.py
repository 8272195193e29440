"""``broker-ctl partitions``, ``controller`` and ``elect``: replicated topics and their replicas."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from broker_ctl.cli.partition_arguments import (
    PARTITIONS,
    TOPICS,
    PartitionName,
    ReplicaList,
    count_text,
    ids_text,
    lists_of,
    partition_in,
    partition_name,
    preview,
    topic_path,
)
from broker_ctl.cli.reassign import command as reassign
from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table, time_text
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    VerbGroup,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)

# ``broker-ctl partitions adopt``: assign the missing topic_id of a topic.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions adopt orders --dry-run
  broker-ctl partitions adopt orders --topic-id 5f0c7a9d2b4e4f7f8a1c3d5e7f90a1b2
  broker-ctl partitions adopt orders --yes --output json
"""
_STATES: Final = {"kafka": "Kafka's", "broker-ctl": "broker-ctl's", "none": "none: never led"}


@click.command(cls=VerbCommand, epilog=_EXAMPLES)
@click.argument("topic")
@click.option(
    "--topic-id",
    metavar="ID",
    help="topic_id under which brokers store its replicas.  [default: a new one]",
)
@change_options
@daemon_options
def adopt(target: Target, *, topic: str, topic_id: str | None, dry_run: bool, yes: bool) -> None:
    """Assign the topic_id that the node of TOPIC in ZooKeeper lacks, and elect its leaders.

    For topics that already had leaders: under Kafka before 2.8, or before their nodes were
    rewritten. The controller assigns ids to all other topics automatically. Partition states in
    Kafka's layout are kept. Daemons do not report the id of stored replicas; the operator must know
    it, because brokers delete replicas stored under another id. Omit --topic-id if no broker
    process stores any replica of TOPIC.
    """
    path = f"{topic_path(topic)}/topic-id"
    body = {} if topic_id is None else {"topic_id": topic_id}
    topic_state = send_dry_run(target, VerbChange("PUT", path, body=body))
    if not target.is_json:
        _preview(topic_state)
    given = topic_state["topic_id"]
    what = f"{topic} with {count_text(len(topic_state['partitions']), 'partition')} under the"
    under = f"{'new ' if topic_id is None else ''}topic_id {given}"
    sentence = f"adopt {what} {under}; replicas that brokers store under another id are deleted"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, **topic_state):
        # Send the id that was shown.
        topic_state = send(target, VerbChange("PUT", path, body={"topic_id": given})).json()
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


# ``broker-ctl controller``: the partition controller.


_EXAMPLE: Final = """\b
Examples:
  broker-ctl controller show
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLE)
def controller() -> None:
    """Show the partition controller: the broker that elects the leaders of partitions."""


@controller.command(epilog=_EXAMPLE)
@daemon_options
def show(target: Target) -> None:
    """Show the controller, its epoch, brokers by id, and the number of unhealthy partitions."""
    found = target.run(lambda client: client.get(f"{PARTITIONS}/controller"))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)


# ``broker-ctl elect``: leader elections of replicated partitions by hand.


_ELECTIONS: Final = f"{PARTITIONS}/elections"
_ELECT_EXAMPLES: Final = """\b
Examples:
  broker-ctl elect preferred
  broker-ctl elect preferred orders-0 orders-7 --yes
  broker-ctl elect unclean orders-3 --dry-run
"""
_NAMED: Final = "TOPIC-PARTITION"


@click.group(cls=VerbGroup, epilog=_ELECT_EXAMPLES)
def elect() -> None:
    """Elect leaders by hand; the controller replaces dead leaders automatically."""


@elect.command(epilog=_ELECT_EXAMPLES)
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


@elect.command(epilog=_ELECT_EXAMPLES)
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
    rows = send_dry_run(target, VerbChange("POST", _ELECTIONS, body=body))["partitions"]
    electable = {partition_name(row) for row in rows if not row["reason"]}
    if rows and not target.is_json:
        preview(
            ("partition", "current leader", "new leader", "note"),
            [_cells_of_elect(row) for row in rows],
        )
    if not electable:
        report_result(target, "nothing", "no leader would change", partitions=rows)
        return
    count = count_text(len(electable), f"{kind} leader")
    if not confirm(target, f"elect {count}", dry_run=dry_run, yes=yes, partitions=rows):
        return
    # The body of the dry run: the partitions that change may be too many to name in a request.
    rows = send(target, VerbChange("POST", _ELECTIONS, body=body)).json()["partitions"]
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


def _cells_of_elect(row: dict[str, Any]) -> tuple[object, ...]:
    before, then = (broker if broker >= 0 else "none" for broker in (row["before"], row["leader"]))
    return partition_name(row), before, then, row["reason"]


# ``broker-ctl partitions history``: changes of leaders and ISRs, with times and reasons.


_COLUMNS: Final = ("when", "partition", "leader", "leader epoch", "in sync", "why")
_HISTORY_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions history
  broker-ctl partitions history orders --limit 200
  broker-ctl partitions history orders-3
  broker-ctl partitions history orders --partition 3 --output json
"""


@click.command(cls=VerbCommand, epilog=_HISTORY_EXAMPLES)
@click.argument("topic", required=False, metavar="[TOPIC|TOPIC-PARTITION]")
@click.option(
    "--partition", type=click.IntRange(0), help="Only changes of this partition of TOPIC."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@daemon_options
def history(target: Target, *, topic: str | None, partition: int | None, limit: int) -> None:
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
    print_table("", _COLUMNS, map(_cells_of_history, rows))


def _read(target: Target, topic: str | None, partition: int | None, limit: int) -> Any:
    wanted = {"topic": topic, "partition": partition, "limit": limit}
    query = {name: str(value) for name, value in wanted.items() if value is not None}
    return target.run(lambda client: client.get(f"{PARTITIONS}/transitions", query))


def _cells_of_history(row: Mapping[str, Any]) -> tuple[object, ...]:
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


# ``broker-ctl partitions explain``: why a partition has its leader.


_REPLICAS: Final = ("replica", "broker", "in sync", "role")
_EXPLAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions explain orders-3
  broker-ctl partitions explain orders-3 --output json
"""


@click.command(
    cls=VerbCommand, short_help="Show why a partition has its leader.", epilog=_EXPLAIN_EXAMPLES
)
@click.argument("partition", type=PartitionName(), metavar="TOPIC-PARTITION")
@daemon_options
def explain(target: Target, *, partition: dict[str, Any]) -> None:
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
    print_table("", _REPLICAS, map(_cells_of_explain, found["replicas"]))
    if found["changes"]:
        print_transitions(found["changes"])


def _cells_of_explain(row: Mapping[str, Any]) -> tuple[object, ...]:
    roles = ("leader", "preferred", "adding", "removing")
    held = ", ".join(role for role in roles if row[f"is_{role}"])
    return row["broker"], row["status"], row["is_in_sync"], held


# ``broker-ctl partitions``: replicated topics and their replicas.


_PARTITIONS_EXAMPLES: Final = """\b
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
_PARTITIONS_REPLICAS: Final = click.option(
    "--replicas",
    type=ReplicaList(),
    multiple=True,
    metavar="PARTITION:BROKER,BROKER",
    help="Replicas of one partition as broker ids, the preferred one first; once per partition.",
)


@click.group(
    cls=VerbGroup,
    epilog=_PARTITIONS_EXAMPLES,
)
def partitions() -> None:
    """Manage replicated topics, whose partitions have replicas on brokers with a brokerId."""


@partitions.command(epilog=_PARTITIONS_EXAMPLES)
@click.argument("topic")
@_PARTITIONS_REPLICAS
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
    rows = send_dry_run(target, VerbChange("PUT", path, body=body))["partitions"]
    _preview_of_partitions(target, rows)
    sentence = f"create {topic} with {count_text(len(rows), 'partition')}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        # Send the replicas that were shown, even if brokers have come or gone since.
        body = {**rules, "replicas": _replica_lists(rows)}
        send(target, VerbChange("PUT", path, body=body))
        made = f"created {topic} with {count_text(len(rows), 'partition')}"
        report_result(target, "created", made, partitions=rows)


@partitions.command(name="list", epilog=_PARTITIONS_EXAMPLES)
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


@partitions.command(epilog=_PARTITIONS_EXAMPLES)
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


@partitions.command(epilog=_PARTITIONS_EXAMPLES)
@click.argument("topic")
@click.option(
    "--partitions", type=click.IntRange(1), required=True, help="Total number of partitions."
)
@_PARTITIONS_REPLICAS
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
    rows = send_dry_run(target, VerbChange("POST", path, body=body))["partitions"]
    _preview_of_partitions(target, rows)
    sentence = f"add {count_text(len(rows), 'partition')} to {topic}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        body = {"partitions": partitions, "replicas": _replica_lists(rows)}
        send(target, VerbChange("POST", path, body=body))
        report_result(target, "grown", f"{topic} now has {partitions} partitions", partitions=rows)


@partitions.command(epilog=_PARTITIONS_EXAMPLES)
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
    result = send_dry_run(target, VerbChange("POST", path, body=body))
    sentence = f"change {topic}: {_rules_change(result)}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, **result):
        result = send(target, VerbChange("POST", path, body=body)).json()
        report_result(target, "altered", f"changed {topic}: {_rules_change(result)}", **result)


@partitions.command(epilog=_PARTITIONS_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def delete(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Delete TOPIC and all its records.

    The deletion completes once every replica on a live broker is deleted; replicas on a dead broker
    are deleted when it returns.
    """
    path = topic_path(topic)
    count = send_dry_run(target, VerbChange("DELETE", path))["partitions"]
    sentence = f"delete {topic}: {count_text(count, 'partition')}, and all their records"
    if confirm(target, sentence, dry_run=dry_run, yes=yes):
        send(target, VerbChange("DELETE", path))
        report_result(
            target,
            "deleting",
            f"deleting {topic}; broker-ctl partitions list shows it until it is deleted",
        )


partitions.add_command(adopt, "adopt")
partitions.add_command(explain, "explain")
partitions.add_command(history, "history")
partitions.add_command(reassign, "reassign")


def _preview_of_partitions(target: Target, rows: list[dict[str, Any]]) -> None:
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
