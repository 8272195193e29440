"""``broker-ctl namespaces``: create, list, delete."""

from typing import Final

import click

from broker_ctl.cli.tables import echo_json, print_table
from broker_ctl.cli.target import Target, daemon_options

_CREATE: Final = """\b
Examples:
  broker-ctl namespaces create shop/orders
  broker-ctl namespaces create shop/orders --bundles 16
"""
_LIST: Final = """\b
Example:
  broker-ctl namespaces list shop
"""
_DELETE: Final = """\b
Example:
  broker-ctl namespaces delete shop/orders --yes
"""


@click.group(short_help="Create, list and delete namespaces.")
def command() -> None:
    """Work on namespaces: named sets of topics that share one ring of bundles."""


@command.command(epilog=_CREATE)
@click.argument("namespace")
@click.option(
    "--bundles",
    type=click.IntRange(1, 65_536),
    help="Bundles of equal size.  [default: defaultNumberOfNamespaceBundles]",
)
@daemon_options
def create(target: Target, *, namespace: str, bundles: int | None) -> None:
    """Create NAMESPACE, which is tenant/name."""
    from broker_ctl.cli.client import namespace_path
    from broker_ctl.core.names import Namespace

    name = Namespace.parse(namespace)
    body = None if bundles is None else {"bundles": {"numBundles": bundles}}
    target.run(lambda client: client.request("PUT", namespace_path(name), json=body))
    if target.is_json:
        echo_json({"created": str(name)})
    else:
        click.echo(f"created {name}")


@command.command(name="list", epilog=_LIST)
@click.argument("tenant")
@daemon_options
def list_(target: Target, *, tenant: str) -> None:
    """List the namespaces of TENANT."""
    from urllib.parse import quote

    path = f"/admin/v2/namespaces/{quote(tenant, safe='')}"
    names = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("namespace",), ([name] for name in names))


@command.command(epilog=_DELETE)
@click.argument("namespace")
@click.option("--yes", is_flag=True, help="Do not ask.")
@daemon_options
def delete(target: Target, *, namespace: str, yes: bool) -> None:
    """Delete NAMESPACE; refused while a bundle of it is owned."""
    from broker_ctl.cli.client import namespace_path
    from broker_ctl.core.names import Namespace

    name = Namespace.parse(namespace)
    if not yes:
        click.confirm(f"Delete {name}?", abort=True)
    target.run(lambda client: client.request("DELETE", namespace_path(name)))
    if target.is_json:
        echo_json({"deleted": str(name)})
    else:
        click.echo(f"deleted {name}")
