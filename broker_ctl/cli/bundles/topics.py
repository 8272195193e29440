"""``broker-ctl topics``: look up, unload and partition topics."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.bundles.actions import owner_row
from broker_ctl.cli.bundles.lookup import lookup
from broker_ctl.cli.bundles.partitioned_topics import PARTITIONED_VERBS, topic_path
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.names import Topic

_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics unload persistent://shop/orders/new --dry-run
  broker-ctl topics unload shop/orders/new-partition-0 --yes
  broker-ctl topics bundle-range shop/orders/new-partition-0
  broker-ctl topics create-partitioned-topic shop/orders/new --partitions 8
  broker-ctl topics partitioned-lookup shop/orders/new
"""


@click.group(cls=VerbGroup, short_help="Look up, unload and partition topics.", epilog=_EXAMPLES)
def command() -> None:
    """Manage topics."""


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def unload(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Close TOPIC at its broker; its next client reopens it there.

    The bundle stays with its owner: to move the topic, unload or move its bundle. For a
    partitioned topic, name a partition.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _bundle_row(client, name))
    owner, bundle = held["owner"], held["bundle"]
    if owner is None:
        report_result(target, "nothing", f"{bundle} has no owner: {name} is not loaded")
        return
    change = Change("PUT", f"/admin/v2/{topic_path(name)}/unload")
    sentence = f"unload {name} of {bundle} at {owner}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {name}; {bundle} stays at {owner}")


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def bundle_range(target: Target, *, topic: str) -> None:
    """Show the hash range of the bundle of TOPIC; nothing is assigned."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    span = target.run(lambda client: _range_of(client, name))
    if target.is_json:
        echo_json({"topic": str(name), "range": span})
    else:
        echo(span)


for _verb in PARTITIONED_VERBS:
    command.add_command(_verb)
command.add_command(lookup)


async def _bundle_row(client: "Client", topic: "Topic") -> dict[str, Any]:
    from broker_ctl.core.model.bundle import Bundle

    # A lookup would assign an unowned bundle.
    span = await _range_of(client, topic)
    return await owner_row(client, Bundle.parse(f"{topic.namespace}/{span}"))


async def _range_of(client: "Client", topic: "Topic") -> str:
    path = f"/lookup/v2/topic/{topic_path(topic)}/bundle"
    return (await client.request("GET", path)).body.decode()
