"""Sets a watch, and retries until it is set.

A component sets its watch once, when it starts: a single timeout of a slow or absent server must
not end the daemon. The store itself bounds how long it goes without a server
(`zookeeperSessionReconnectMaxRetries`); after that it closes, and no attempt can succeed.
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
    """As `MetadataStore.watch`, repeated while a retry can help.

    Raises:
        StoreError: one that stays: the store is closed, or refuses.
    """
    while True:
        try:
            return await store.watch(root, listener)
        except StoreError as error:
            if not error.can_retry:
                raise
            log.info("cannot watch %s: %s; retrying in %g s", root, error, _RETRY_S)
            # An attempt that failed at once must not become a busy loop.
            await asyncio.sleep(_RETRY_S)
