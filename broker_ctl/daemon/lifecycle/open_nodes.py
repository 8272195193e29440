"""Checks at the start and now and then that the nodes in ZooKeeper are closed to strangers."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.stores import OwnStore, guarded_tree, node_access
from broker_ctl.errors import StartError, StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.conditions import ACTING, STORE_OFF_LOOPBACK
from broker_ctl.settings.root import Settings

log = logging.getLogger(__name__)

# Parents come first, so the bound leaves out leaves of a large cluster only.
_MOST_NODES: Final = 5000
_PERIOD_S: Final = 600.0


class OpenNodeCheck:
    """Counts open nodes, and refuses servers that take writes of everybody.

    ``broker-ctl zookeeper secure`` closes open nodes.
    """

    def __init__(
        self, settings: Settings, stores: Sequence[OwnStore], instruments: StoreInstruments
    ) -> None:
        self._stores = tuple(dict.fromkeys(stores))
        self._instruments = instruments
        self._top = guarded_tree(settings)
        self._is_restricted = node_access(settings).is_restricted
        # Beside a Pulsar cluster that is only watched, no node of the daemon's matters.
        self._is_refusing = (
            STORE_OFF_LOOPBACK.holds(settings)
            and ACTING.holds(settings)
            and not settings.security.allow_open_metadata_store
        )

    async def verify(self) -> None:
        """Check all stores once.

        Raises:
            StartError: the servers take writes of everybody, and are not on this machine.
            StoreError: a store does not answer.
        """
        if not self._is_restricted:
            return
        for store in self._stores:
            await self._count(store)
            await self._refuse_strangers(store)

    async def run(self) -> None:
        """Count open nodes again and again, so that the metric follows what operators do."""
        while self._is_restricted:
            await asyncio.sleep(_PERIOD_S)
            for store in self._stores:
                try:
                    await self._count(store)
                except StoreError as error:
                    log.info("%s: cannot count open nodes: %s", store.name, error)

    async def _count(self, store: OwnStore) -> None:
        control = store.access_control(self._top)
        if control is None:
            return
        found = await control.count(_MOST_NODES)
        self._instruments.open_nodes.report(found.open, store.name)
        if found.open:
            log.warning(
                "%s: %d of %d nodes in ZooKeeper are open to everybody, such as %s; run "
                "broker-ctl zookeeper secure",
                store.name,
                found.open,
                found.nodes,
                ", ".join(found.examples),
            )
        if found.foreign:
            log.warning(
                "%s: %d nodes in ZooKeeper belong to another identity, such as %s: all daemons "
                "need the same",
                store.name,
                found.foreign,
                ", ".join(found.foreign_examples),
            )

    async def _refuse_strangers(self, store: OwnStore) -> None:
        control = store.access_control(self._top)
        if control is None:
            return
        writable = await control.anonymously_writable()
        if not writable:
            return
        found = (
            f"{store.name}: ZooKeeper lets clients without an identity write in "
            f"{', '.join(writable)}"
        )
        if self._is_refusing:
            raise StartError(
                f"{found}: run broker-ctl zookeeper secure, or set allowOpenMetadataStore=true"
            )
        log.warning("%s; run broker-ctl zookeeper secure", found)


def open_node_check(base: Foundation) -> OpenNodeCheck:
    """The check of a daemon's stores."""
    stores = (base.store, base.configuration_store)
    return OpenNodeCheck(base.settings, stores, base.instruments.store)
