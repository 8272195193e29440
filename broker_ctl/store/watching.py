"""Setting a watch, however often it takes.

A watch is set once, when a component starts, and is never set later: one answer that a slow
or absent server does not give in time must not end the daemon. For how long there may be no
server, the store itself knows (`zookeeperSessionReconnectMaxRetries`), and then it is closed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker_ctl.errors import StoreError
from broker_ctl.store.interface import MetadataStore, NotificationListener

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.25


async def set_watch(
    store: MetadataStore, root: str, listener: NotificationListener
) -> Callable[[], None]:
    """As `MetadataStore.watch`, again and again while trying again can help.

    Raises:
        StoreError: one that stays: the store is closed, or refuses.
    """
    while True:
        try:
            return await store.watch(root, listener)
        except StoreError as error:
            if not error.can_retry:
                raise
            log.info("watching %s: %s; again", root, error)
            # An attempt that failed at once must not become a busy loop.
            await asyncio.sleep(_RETRY_S)
