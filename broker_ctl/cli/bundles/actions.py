"""Shared by the commands for bundles: examples and owners."""

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
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
    """The owners of the bundles of a namespace."""
    rows: list[dict[str, Any]] = await client.get(_OWNERS, {"namespace": str(namespace)})
    return rows


async def owner_row(client: "Client", bundle: "Bundle") -> dict[str, Any]:
    """The owner of a bundle.

    Raises:
        ClickException: the namespace has no such bundle.
    """
    for row in await owner_rows(client, bundle.namespace):
        if row["bundle"] == str(bundle):
            return row
    raise no_bundle(bundle)


def no_bundle(bundle: "Bundle") -> click.ClickException:
    """The error for a range that is not in the ring."""
    return click.ClickException(
        f"{bundle} is not a bundle: see broker-ctl bundles list {bundle.namespace}"
    )
