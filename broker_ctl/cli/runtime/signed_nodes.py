"""Opens ZooKeeper for commands that look at the signatures of nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker_ctl.security.cluster_key import SigningKeys
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.signed.signatures import ZnodeSignatures
    from broker_ctl.store.zookeeper.store import ZooKeeperStore

_CONNECT_S: Final = 10.0


def signatures_by(keys: "SigningKeys", settings: "Settings") -> "ZnodeSignatures":
    """Signs and verifies nodes with these keys, as daemons with these settings do."""
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.wiring.security.znode_signatures import signature_scope
    from broker_ctl.store.signed.signatures import ZnodeSignatures

    scope = signature_scope(settings)
    return ZnodeSignatures(keys, scope, SystemClock(), is_required=True, on_failure=lambda *_: None)


@asynccontextmanager
async def unverified_store(settings: "Settings") -> "AsyncIterator[ZooKeeperStore]":
    """A connection whose reads are not verified.

    Raises:
        ConnectionLoss: no server answered in time.
    """
    import random

    from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
    from broker_ctl.errors import ConnectionLoss
    from broker_ctl.instruments.declared import StoreInstruments

    url = settings.metadata.store_url
    assert url is not None, "the caller has checked it"
    store = open_store(
        settings,
        url,
        "metadata-store",
        random.SystemRandom(),
        instruments=StoreInstruments(),
        credentials=StoreCredentials.now(settings),
    )
    await store.start()
    try:
        try:
            async with asyncio.timeout(_CONNECT_S):
                await store.wait_connected()
        except TimeoutError:
            raise ConnectionLoss(
                f"no ZooKeeper server of {store.name} answered within {_CONNECT_S:g} s"
            ) from None
        yield store
    finally:
        await store.close()
