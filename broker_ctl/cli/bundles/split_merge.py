"""``broker-ctl bundles split`` and ``merge``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from broker_ctl.cli.bundles.actions import EXAMPLES, no_bundle, owner_rows
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.target import Target, daemon_options

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.bundle import Bundle
    from broker_ctl.core.model.names import Namespace


@click.command(epilog=EXAMPLES)
@click.argument("bundle")
@click.option("--algorithm", help="[default: defaultNamespaceBundleSplitAlgorithm of the broker]")
@click.option(
    "--at",
    "positions",
    multiple=True,
    metavar="HASH",
    help="Hash at which to split, such as 0x10000000; repeatable.",
)
@click.option(
    "--unload",
    "wants_unload",
    is_flag=True,
    help="Unload the resulting bundles, so that less loaded brokers may own them.",
)
@change_options
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
    """Split BUNDLE; the resulting bundles stay with its owner unless --unload is given.

    In place of the range, LARGEST names the bundle with the most topics, and HOT the one with the
    most traffic.
    """
    from broker_ctl.cli.runtime.client import namespace_path

    namespace, label = _split_target(bundle)
    points = [_position(text) for text in positions]
    if points:
        algorithm = algorithm or "specified_positions_divide"
    query = {"unload": str(wants_unload).lower(), "by": audit_fields("")["by"]}
    if algorithm:
        query["splitAlgorithmName"] = algorithm

    def split_request(span: str) -> Change:
        return Change("PUT", f"{namespace_path(namespace)}/{span}/split", query, points or None)

    found = send_dry_run(target, split_request(label))
    bundle, span = found["bundle"], found["bundle"].rpartition("/")[2]
    if span != label:
        # LARGEST or HOT: split the bundle that the leader named, even if another is larger by then.
        found = send_dry_run(target, split_request(span))
    where = f" into {', '.join(found['children'])}" if found["children"] else ""
    sentence = f"split {bundle} of {found['owner'] or 'its assigned broker'}{where}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        return

    async def split_bundle(client: "Client") -> list[str]:
        before = {row["bundle"] for row in await owner_rows(client, namespace)}
        await client.request("PUT", split_request(span).path, query, points or None)
        rows = await owner_rows(client, namespace)
        return [row["bundle"] for row in rows if row["bundle"] not in before]

    children = target.run(split_bundle)
    if not children:
        raise click.ClickException(f"{bundle}: nothing to split")
    report_result(target, "split", f"split {bundle} into {', '.join(children)}", children=children)


def _split_target(text: str) -> "tuple[Namespace, str]":
    """The namespace, and the range, LARGEST or HOT."""
    from broker_ctl.core.model.bundle import Bundle
    from broker_ctl.core.model.names import Namespace
    from broker_ctl.core.strategies.splitting.special import SPECIAL_NAMES

    rest, _, label = text.rpartition("/")
    if label in SPECIAL_NAMES:
        return Namespace.parse(rest), label
    name = Bundle.parse(text)
    return name.namespace, str(name.range)


@click.command(epilog=EXAMPLES)
@click.argument("bundle")
@click.option("--with", "other", metavar="BUNDLE", help="Adjacent bundle.  [default: the next one]")
@change_options
@daemon_options
def merge(target: Target, *, bundle: str, other: str | None, dry_run: bool, yes: bool) -> None:
    """Merge BUNDLE with an adjacent bundle; if they have different owners, one is moved first."""
    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.core.model.bundle import Bundle

    name = Bundle.parse(bundle)
    rows = target.run(lambda client: owner_rows(client, name.namespace))
    ring = {Bundle.parse(row["bundle"]): row["owner"] for row in rows}
    left, right = _neighbours(ring, name, None if other is None else Bundle.parse(other))
    owners = " and ".join(sorted({ring[one] or "no owner" for one in (left, right)}))
    sentence = f"merge {left} and {right.range} of {owners}"
    query = {"with": str((right if name == left else left).range), "by": audit_fields("")["by"]}
    change = Change("PUT", bundle_path(name, "merge"), query)
    found = send_dry_run(target, change)
    if note := found.get("note"):
        sentence = f"{sentence}; {note}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        whole = left.joined(right)
        report_result(
            target, "merged", f"merged {left} and {right.range}: {whole}", bundle=str(whole)
        )


def _neighbours(
    ring: "Mapping[Bundle, str | None]", bundle: "Bundle", other: "Bundle | None"
) -> "tuple[Bundle, Bundle]":
    """The two bundles to merge, the lower range first.

    Raises:
        ClickException: one is not a bundle, or they are not adjacent.
    """
    if bundle not in ring:
        raise no_bundle(bundle)
    if other is None:
        found = [one for one in ring if one.range.low == bundle.range.high]
        if not found:
            raise click.ClickException(
                f"{bundle} is the last bundle: name its neighbour with --with"
            )
        (other,) = found
    if other not in ring:
        raise no_bundle(other)
    left, right = sorted((bundle, other))
    left.joined(right)
    return left, right


def _position(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a hash such as 0x10000000", param_hint="--at"
        ) from None
