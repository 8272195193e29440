"""Sets a watch, and retries until it is set.

A component sets its watch once, when it starts: a single timeout of a slow or absent server must
not end the daemon. The store itself bounds how long it goes without a server
(`zookeeperSessionReconnectMaxRetries`); after that it closes, and no attempt can succeed.
"""

import random
from collections.abc import Callable
from functools import partial

from broker_ctl.retry import retry
from broker_ctl.store.interface import MetadataStore, NotificationListener


async def set_watch(
    store: MetadataStore, root: str, listener: NotificationListener, *, rng: random.Random
) -> Callable[[], None]:
    """As `MetadataStore.watch`, repeated while a retry can help.

    Raises:
        StoreError: one that stays: the store is closed, or refuses.
    """
    return await retry(partial(store.watch, root, listener), f"cannot watch {root}", rng=rng)
