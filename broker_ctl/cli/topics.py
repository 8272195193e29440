"""``broker-ctl topics``: close one by hand."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.acts import act_options, is_wanted, say
from broker_ctl.cli.bundle_acts import owner_row
from broker_ctl.cli.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.client import Client
    from broker_ctl.core.names import Topic

_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics unload persistent://shop/orders/new --dry-run
  broker-ctl topics unload shop/orders/new-partition-0 --yes
"""


@click.group(short_help="Unload topics.", epilog=_EXAMPLES)
def command() -> None:
    """Work on topics."""


@command.command(epilog=_EXAMPLES)
@click.argument("topic")
@act_options
@daemon_options
def unload(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Close TOPIC where it is served; its next client opens it again there.

    Its bundle stays with its owner: to have it served elsewhere, unload or move the bundle. Of a
    partitioned topic, name a partition.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _bundle_row(client, name))
    owner, bundle = held["owner"], held["bundle"]
    if owner is None:
        say(target, "nothing", f"nobody owns {bundle}: {name} is not loaded")
    elif is_wanted(target, f"unload {name} of {bundle} at {owner}", dry_run=dry_run, yes=yes):
        target.run(lambda client: client.request("PUT", f"/admin/v2/{_path(name)}/unload"))
        say(target, "unloaded", f"unloaded {name}; {bundle} stays at {owner}")


async def _bundle_row(client: "Client", topic: "Topic") -> dict[str, Any]:
    from broker_ctl.core.bundle import Bundle

    # Not a lookup, which would assign a bundle that nobody owns.
    span = await client.request("GET", f"/lookup/v2/topic/{_path(topic)}/bundle")
    return await owner_row(client, Bundle.parse(f"{topic.namespace}/{span.body.decode()}"))


def _path(topic: "Topic") -> str:
    from urllib.parse import quote

    namespace, local = topic.namespace, quote(topic.local, safe="")
    return f"{topic.domain}/{quote(namespace.tenant)}/{quote(namespace.name)}/{local}"
