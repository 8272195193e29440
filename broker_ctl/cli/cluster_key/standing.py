"""Nodes whose signature only a key that is to be removed verifies."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker_ctl.cli.runtime.signed_nodes import signatures_by, unverified_store
from broker_ctl.cli.runtime.zookeeper_target import require_private

if TYPE_CHECKING:
    from broker_ctl.security.key_file import KeyFile
    from broker_ctl.settings.root import Settings


def standing_nodes(
    before: "KeyFile", after: "KeyFile", configuration: Path | None, overrides: Sequence[str]
) -> list[str] | None:
    """The paths of these nodes; None: neither a file nor the environment names the servers.

    Raises:
        SettingsError, StartError: settings that cannot be used, or nothing to derive keys from.
        StoreError: ZooKeeper could not be read.
    """
    from broker_ctl.settings.sources import load

    settings = load(configuration, os.environ, overrides)
    if settings.metadata.store_url is None:
        return None
    require_private(settings)
    return asyncio.run(_find(settings, before, after))


async def _find(settings: "Settings", before: "KeyFile", after: "KeyFile") -> list[str]:
    from broker_ctl.daemon.wiring.security.cluster_keys import derived_keys
    from broker_ctl.store.signed.resigning import find_signed_by_removed

    def derive() -> tuple[bytes, ...]:
        return derived_keys(settings)

    verifiers = [signatures_by(keys.keys(derive), settings) for keys in (before, after)]
    async with unverified_store(settings) as store:
        return [found.node.path for found in await find_signed_by_removed(store, *verifiers)]
