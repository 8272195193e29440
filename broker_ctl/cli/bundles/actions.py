"""What the verbs of ``broker-ctl bundles`` share: examples, who owns what, and a move."""

from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    confirm,
    report_result,
    send,
    send_dry_run,
)

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.cli.runtime.target import Target
    from broker_ctl.core.model.bundle import Bundle
    from broker_ctl.core.model.names import Namespace

_OWNERS: Final = "/control/v1/owners"
EXAMPLES: Final = """\b
Examples:
  broker-ctl bundles list shop/orders
  broker-ctl bundles list shop/orders --sort load
  broker-ctl bundles owner shop/orders/0x00000000_0x40000000
  broker-ctl bundles unload shop/orders/0x00000000_0x40000000 --dry-run
  broker-ctl bundles split shop/orders/0x00000000_0x40000000 --at 0x10000000
  broker-ctl bundles split shop/orders/HOT
  broker-ctl bundles merge shop/orders/0x00000000_0x10000000
  broker-ctl bundles move shop/orders/0x00000000_0x40000000 broker-2:8080
"""


async def owner_rows(client: "Client", namespace: "Namespace") -> list[dict[str, Any]]:
    """Who owns each bundle of a namespace."""
    rows: list[dict[str, Any]] = await client.get(_OWNERS, {"namespace": str(namespace)})
    return rows


async def owner_row(client: "Client", bundle: "Bundle") -> dict[str, Any]:
    """Who owns a bundle.

    Raises:
        ClickException: it is none.
    """
    for row in await owner_rows(client, bundle.namespace):
        if row["bundle"] == str(bundle):
            return row
    raise no_bundle(bundle)


def move_bundle(target: "Target", text: str, destination: str, *, dry_run: bool, yes: bool) -> None:
    """Move a bundle to a broker; returns when it is served there.

    Raises:
        HttpError: it is no bundle, or would not be moved.
    """
    import time

    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.cli.runtime.progress import spinner
    from broker_ctl.core.model.bundle import Bundle

    bundle = Bundle.parse(text)
    query = {"destinationBroker": destination, "by": audit_fields("")["by"]}
    change = Change("PUT", bundle_path(bundle, "unload"), query)
    held = send_dry_run(target, change)["from"]
    if held == destination:
        report_result(target, "nothing", f"{destination} already owns {bundle}")
        return
    sentence = f"move {bundle} from {held or 'nobody'} to {destination}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes):
        return
    began_s = time.monotonic()
    with spinner(target, sentence):
        send(target, change)
    took_s = time.monotonic() - began_s
    report_result(
        target, "moved", f"moved {bundle} to {destination} in {took_s:.1f} s", took_s=took_s
    )


def no_bundle(bundle: "Bundle") -> click.ClickException:
    """What is said of a range that is not in the ring."""
    return click.ClickException(
        f"{bundle} is not a bundle: see broker-ctl bundles list {bundle.namespace}"
    )
