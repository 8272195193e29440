"""``broker-ctl zookeeper sign``: sign nodes that were written without a valid signature."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.confirmation import change_options
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.settings_options import settings_options
from broker_ctl.cli.runtime.signed_nodes import signatures_by, unverified_store
from broker_ctl.cli.runtime.zookeeper_target import require_private, require_servers
from broker_ctl.core.model.printable import escape

if TYPE_CHECKING:
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.signed.resigning import Unsigned
    from broker_ctl.store.signed.signatures import ZnodeSignatures

_SHOWN_CHARACTERS: Final = 160
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper sign --config broker.conf --dry-run
  broker-ctl zookeeper sign --config broker.conf
  broker-ctl zookeeper sign --config broker.conf --yes --output json
"""


@click.command("sign", short_help="Sign nodes without a valid signature.", epilog=_EXAMPLES)
@settings_options("Configuration file (broker.conf) of a daemon, with the cluster's keys.")
@change_options
@output_option()
def command(
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Sign pauses, drains, plans, moves, instructions and deletions in ZooKeeper.

    For nodes from before signatures, of an old cluster key, or from a copy of ZooKeeper. A signed
    node counts as said by a broker, so look at each payload first: an attacker may have written
    it. Delete what is not yours. Nodes that end with their session are signed by their brokers, at
    a restart.

    Exit code 1 if a node could not be signed: it has changed, or holds no JSON object.
    """
    from broker_ctl.settings.sources import load

    settings = load(configuration, os.environ, overrides)
    require_servers(settings)
    require_private(settings)
    signatures = _signatures(settings)
    found, signed = asyncio.run(_run(settings, signatures, is_dry_run=dry_run, yes=yes))
    if output == "json":
        nodes = [{"path": one.node.path, **_row(one)} for one in found]
        echo_json({"dry_run": dry_run, "nodes": nodes, "signed": signed})
    else:
        verb = "would be signed" if dry_run else "were signed"
        echo(f"{len(found) if dry_run else signed} of {len(found)} nodes {verb}")
    sys.exit(not dry_run and signed < len(found))


def _signatures(settings: "Settings") -> "ZnodeSignatures":
    from broker_ctl.daemon.wiring.security.cluster_keys import read_cluster_keys

    keys = read_cluster_keys(settings)
    if keys is None:
        raise click.ClickException("the cluster has no keys: set clusterKeyFile")
    return signatures_by(keys, settings)


async def _run(
    settings: "Settings", signatures: "ZnodeSignatures", *, is_dry_run: bool, yes: bool
) -> "tuple[list[Unsigned], int]":
    from broker_ctl.store.signed.resigning import find_unsigned, sign_again

    async with unverified_store(settings) as store:
        found = await find_unsigned(store, signatures)
        for one in found:
            row = _row(one)
            echo(f"{escape(one.node.path)}: {row['problem']}: {row['payload']}", err=True)
        if is_dry_run or not found:
            return found, 0
        if not yes:
            # The connection is kept alive meanwhile.
            text = f"Sign these {len(found)} nodes?"
            await asyncio.to_thread(click.confirm, text, abort=True, err=True)
        return found, sum([await sign_again(store, signatures, one) for one in found])


def _row(one: "Unsigned") -> dict[str, str]:
    payload = one.node.data[:_SHOWN_CHARACTERS].decode(errors="replace")
    return {"family": one.family, "problem": one.problem, "payload": escape(payload)}
