"""``broker-ctl bundles``: who owns which, and unload, split and move by hand."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.tables import echo_json, print_table
from broker_ctl.cli.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.client import Client
    from broker_ctl.core.bundle import Bundle
    from broker_ctl.core.names import Namespace

_OWNERS: Final = "/control/v1/owners"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl bundles list shop/orders
  broker-ctl bundles owner shop/orders/0x00000000_0x40000000
  broker-ctl bundles unload shop/orders/0x00000000_0x40000000 --dry-run
  broker-ctl bundles split shop/orders/0x00000000_0x40000000 --at 0x10000000
  broker-ctl bundles move shop/orders/0x00000000_0x40000000 broker-2:8080
"""


@click.group(short_help="List, unload, split and move bundles.", epilog=_EXAMPLES)
def command() -> None:
    """Work on bundles. A BUNDLE is tenant/namespace/0xLOW_0xHIGH, as `bundles list` prints it."""


def act_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Options of the verbs that change something."""
    dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    return dry_run(yes(verb))


@command.command(name="list", epilog=_EXAMPLES)
@click.argument("namespace")
@daemon_options
def list_(target: Target, *, namespace: str) -> None:
    """List the bundles of NAMESPACE with their owners."""
    from broker_ctl.core.names import Namespace

    name = Namespace.parse(namespace)
    rows = target.run(lambda client: _owners(client, name))
    _print_owners(target, rows)


@command.command(epilog=_EXAMPLES)
@click.argument("bundle")
@daemon_options
def owner(target: Target, *, bundle: str) -> None:
    """Show who owns BUNDLE."""
    from broker_ctl.core.bundle import Bundle

    name = Bundle.parse(bundle)
    row = target.run(lambda client: _owner(client, name))
    if target.is_json:
        echo_json(row)
    else:
        _print_owners(target, [row])


@command.command(epilog=_EXAMPLES)
@click.argument("bundle")
@act_options
@daemon_options
def unload(target: Target, *, bundle: str, dry_run: bool, yes: bool) -> None:
    """Close BUNDLE at its owner and give it up; the next lookup places it anew."""
    from broker_ctl.cli.client import bundle_path
    from broker_ctl.core.bundle import Bundle

    name = Bundle.parse(bundle)
    held = target.run(lambda client: _owner(client, name))["owner"]
    if held is None:
        _say(target, "nothing", f"nobody owns {name}: nothing to unload")
    elif _is_wanted(target, f"unload {name} from {held}", dry_run=dry_run, yes=yes):
        path = bundle_path(name, "unload")
        target.run(lambda client: client.request("PUT", path))
        _say(target, "unloaded", f"unloaded {name} from {held}")


@command.command(epilog=_EXAMPLES)
@click.argument("bundle")
@click.option("--algorithm", help="[default: defaultNamespaceBundleSplitAlgorithm of the broker]")
@click.option(
    "--at",
    "positions",
    multiple=True,
    metavar="HASH",
    help="Cut here, for instance 0x10000000; may be given several times.",
)
@click.option("--unload", "wants_unload", is_flag=True, help="Unload what comes of it.")
@act_options
@daemon_options
def split(
    target: Target,
    *,
    bundle: str,
    algorithm: str | None,
    positions: tuple[str, ...],
    wants_unload: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Replace BUNDLE by its parts, which stay with its owner unless --unload is given."""
    from broker_ctl.cli.client import bundle_path
    from broker_ctl.core.bundle import Bundle

    name = Bundle.parse(bundle)
    points = [_position(text) for text in positions]
    if points:
        algorithm = algorithm or "specified_positions_divide"
    held = target.run(lambda client: _owner(client, name))["owner"]
    where = f" at {', '.join(f'0x{point:08x}' for point in points)}" if points else ""
    sentence = f"split {name} of {held or 'whoever is assigned to it'}{where}"
    if not _is_wanted(target, sentence, dry_run=dry_run, yes=yes):
        return
    query = {"unload": str(wants_unload).lower()}
    if algorithm:
        query["splitAlgorithmName"] = algorithm

    async def act(client: "Client") -> list[str]:
        await client.request("PUT", bundle_path(name, "split"), query, points or None)
        rows = await _owners(client, name.namespace)
        parsed = [Bundle.parse(row["bundle"]) for row in rows]
        return [str(one) for one in parsed if one.overlaps(name) and one != name]

    children = target.run(act)
    if children:
        _say(target, "split", f"split {name} into {', '.join(children)}", children=children)
    else:
        _say(target, "nothing", f"{name}: nothing to split")


@command.command(epilog=_EXAMPLES)
@click.argument("bundle")
@click.argument("destination", metavar="BROKER")
@act_options
@daemon_options
def move(target: Target, *, bundle: str, destination: str, dry_run: bool, yes: bool) -> None:
    """Move BUNDLE to BROKER; returns when it is served there."""
    from broker_ctl.cli.client import bundle_path
    from broker_ctl.core.bundle import Bundle

    name = Bundle.parse(bundle)
    held = target.run(lambda client: _owner(client, name))["owner"]
    sentence = f"move {name} from {held or 'nobody'} to {destination}"
    if _is_wanted(target, sentence, dry_run=dry_run, yes=yes):
        query = {"destinationBroker": destination}
        target.run(lambda client: client.request("PUT", bundle_path(name, "unload"), query))
        _say(target, "moved", f"moved {name} to {destination}")


async def _owners(client: "Client", namespace: "Namespace") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await client.get(_OWNERS, {"namespace": str(namespace)})
    return rows


async def _owner(client: "Client", bundle: "Bundle") -> dict[str, Any]:
    for row in await _owners(client, bundle.namespace):
        if row["bundle"] == str(bundle):
            return row
    raise click.ClickException(
        f"{bundle} is no bundle (any more): see broker-ctl bundles list {bundle.namespace}"
    )


def _print_owners(target: Target, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", ("bundle", "owner", "token", "note"), (row.values() for row in rows))


def _is_wanted(target: Target, sentence: str, *, dry_run: bool, yes: bool) -> bool:
    if dry_run:
        _say(target, "dry_run", f"would {sentence}")
        return False
    if not yes:
        # On stderr: a program that reads the answer must not read the question.
        click.confirm(f"{sentence[0].upper()}{sentence[1:]}?", abort=True, err=True)
    return True


def _say(target: Target, result: str, sentence: str, **more: Any) -> None:
    if target.is_json:
        echo_json({"result": result, "sentence": sentence, **more})
    else:
        click.echo(sentence)


def _position(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no hash, such as 0x10000000", param_hint="--at"
        ) from None
