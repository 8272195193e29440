"""``broker-ctl topics lookup``: the broker that serves a topic."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.names import Topic

_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics lookup persistent://shop/orders/new
  broker-ctl topics lookup shop/orders/new --output json
"""


@click.command(name="lookup", epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def lookup(target: Target, *, topic: str) -> None:
    """Look up TOPIC as a client would, following redirects; a bundle without an owner is assigned.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    found = target.run(lambda client: look_up(client, name))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found | {"redirects": " -> ".join(found["redirects"])})


async def look_up(client: "Client", topic: "Topic") -> dict[str, Any]:
    """The broker and the bundle of a topic, with the redirects of the lookup."""
    from urllib.parse import quote

    namespace = topic.namespace
    local = quote(topic.local, safe="")
    path = f"/lookup/v2/topic/{topic.domain}/{namespace.tenant}/{namespace.name}/{local}"
    hops: list[str] = []
    answer = (await client.request("GET", path, hops=hops)).json()
    span = (await client.request("GET", f"{path}/bundle")).body.decode()
    return {
        "topic": str(topic),
        "bundle": f"{namespace}/{span}",
        "broker": answer["brokerId"],
        "url": answer.get("brokerUrl"),
        "url_tls": answer.get("brokerUrlTls"),
        "web_url": answer.get("httpUrl"),
        "redirects": hops,
    }
