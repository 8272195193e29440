"""``broker-ctl topics``: partitioned topics; the commands are named as in pulsar-admin."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.names import Topic

_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics create-partitioned-topic shop/orders/new --partitions 8
  broker-ctl topics update-partitioned-topic shop/orders/new --partitions 16 --dry-run
  broker-ctl topics list-partitioned-topics shop/orders
  broker-ctl topics get-partitioned-topic-metadata shop/orders/new
  broker-ctl topics partitioned-lookup shop/orders/new --output json
  broker-ctl topics delete-partitioned-topic shop/orders/new --yes
"""
# The daemon's own bound; its settings may lower it.
_NUMBER: Final = click.IntRange(1, 65_536)
# A daemon limits concurrent lookups, and other clients need some of them.
_MOST_AT_ONCE: Final = 16


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@click.option("--partitions", "-p", type=_NUMBER, required=True, help="Number of partitions.")
@change_options
@daemon_options
def create_partitioned_topic(
    target: Target, *, topic: str, partitions: int, dry_run: bool, yes: bool
) -> None:
    """Create the partitioned topic TOPIC; clients then find its partitions and open them."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    change = Change("PUT", _partitions_path(name), body=partitions)
    sentence = f"create {name} with {partitions} partitions"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created {name} with {partitions} partitions")


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@click.option("--partitions", "-p", type=_NUMBER, required=True, help="Total number of partitions.")
@change_options
@daemon_options
def update_partitioned_topic(
    target: Target, *, topic: str, partitions: int, dry_run: bool, yes: bool
) -> None:
    """Increase the number of partitions of TOPIC; it cannot be decreased.

    Producers that choose a partition by message key then send some keys to other partitions.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _partitions_of(client, name))
    sentence = f"update {name} from {held} to {partitions} partitions"
    change = Change("POST", _partitions_path(name), body=partitions)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"{name} now has {partitions} partitions")


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def delete_partitioned_topic(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Delete the partition metadata of TOPIC; clients then treat it as an unpartitioned topic.

    Brokers keep loaded partitions and their stored data.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _partitions_of(client, name))
    sentence = f"delete partitioned topic {name}, which has {held} partitions"
    change = Change("DELETE", _partitions_path(name))
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted partitioned topic {name}")


@click.command(epilog=_EXAMPLES)
@click.argument("namespace")
@daemon_options
def list_partitioned_topics(target: Target, *, namespace: str) -> None:
    """List the partitioned topics of NAMESPACE, persistent ones first."""
    from broker_ctl.core.model.names import DOMAINS, Namespace

    name = Namespace.parse(namespace)

    async def names_of(client: "Client") -> list[str]:
        lists = [await client.get(f"/admin/v2/{domain}/{name}/partitioned") for domain in DOMAINS]
        return [topic for topics in lists for topic in topics]

    topics = target.run(names_of)
    if target.is_json:
        echo_json(topics)
    else:
        print_table("", ("partitioned topic",), ([topic] for topic in topics))


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def get_partitioned_topic_metadata(target: Target, *, topic: str) -> None:
    """Show the number of partitions of TOPIC; 0 if it is unpartitioned or unknown."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    found = target.run(lambda client: client.get(_partitions_path(name)))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)


@click.command(epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def partitioned_lookup(target: Target, *, topic: str) -> None:
    """Look up each partition of TOPIC; bundles without an owner are assigned.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    rows = target.run(lambda client: _look_up_all(client, name))
    if target.is_json:
        echo_json(rows)
    else:
        columns = ("topic", "broker", "bundle", "url")
        print_table("", columns, ([row[column] for column in columns] for row in rows))


PARTITIONED_VERBS: Final = (
    create_partitioned_topic,
    update_partitioned_topic,
    delete_partitioned_topic,
    list_partitioned_topics,
    get_partitioned_topic_metadata,
    partitioned_lookup,
)


async def _look_up_all(client: "Client", topic: "Topic") -> list[dict[str, Any]]:
    import asyncio

    from broker_ctl.cli.bundles.lookup import look_up
    from broker_ctl.core.model.names import Topic

    names = [f"{topic.local}-partition-{i}" for i in range(await _partitions_of(client, topic))]
    waiting = iter([Topic.of(topic.domain, topic.namespace, name) for name in names])
    found: dict[str, dict[str, Any]] = {}

    async def work() -> None:
        for partition in waiting:
            found[partition.local] = await look_up(client, partition)

    async with asyncio.TaskGroup() as group:
        for number in range(min(_MOST_AT_ONCE, len(names))):
            group.create_task(work(), name=f"lookups {number}")
    return [found[name] for name in names]


async def _partitions_of(client: "Client", topic: "Topic") -> int:
    """The number of partitions.

    Raises:
        ClickException: the topic is not partitioned.
    """
    partitions: int = (await client.get(_partitions_path(topic)))["partitions"]
    if not partitions:
        raise click.ClickException(
            f"{topic} is not partitioned: see broker-ctl topics list-partitioned-topics "
            f"{topic.namespace}"
        )
    return partitions


def _partitions_path(topic: "Topic") -> str:
    return f"/admin/v2/{topic_path(topic)}/partitions"


def topic_path(topic: "Topic") -> str:
    """A topic as part of a path in the API."""
    from urllib.parse import quote

    namespace, local = topic.namespace, quote(topic.local, safe="")
    return f"{topic.domain}/{quote(namespace.tenant)}/{quote(namespace.name)}/{local}"
