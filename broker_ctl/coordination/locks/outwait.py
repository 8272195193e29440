"""Waiting for a node to go that a session of before left behind.

The leader of the servers ends a dead session within its timeout and a tick after it last heard of
it; a new leader gives every session a full timeout again (docs: pulsar-resource-lock). So the
limit begins anew when the servers elect one, which a zxid shows in its upper half, and only so
often that a node which never goes is told from one that is late.
"""

import asyncio
import contextlib
from typing import Final

from broker_ctl.store.interface import MetadataStore, Versioned

_POLL_S: Final = 0.25
_MARGIN_S: Final = 2.0
_MAX_RESTARTS: Final = 3


def stale_limit_s(timeout_s: float, tick_s: float) -> float:
    """How long a node of a dead session can stand, if the servers have a leader."""
    return timeout_s + 2 * tick_s + _MARGIN_S


async def wait_for_deletion(
    store: MetadataStore, node: Versioned, limit_s: float, hint: asyncio.Event | None = None
) -> bool:
    """Return true once ``node`` is gone or replaced; false when it outlives the limit.

    That may take longer than the limit, by as long as the servers do not answer.

    ``hint`` is set when its deletion is told, which may fall into a lost connection: it is looked
    at again now and then all the same.
    """
    hint = hint or asyncio.Event()
    loop = asyncio.get_running_loop()
    term, restarts = store.last_zxid >> 32, 0
    end_s = loop.time() + limit_s
    while True:
        hint.clear()
        # Only what is read behind the limit can say that the node outlives it: an earlier read may
        # be answered behind an outage that was longer than the limit, or by a server that lags.
        is_last = loop.time() >= end_s
        if is_last:
            await store.sync(node.path)
        stat = await store.exists(node.path)
        if stat is None or stat.czxid != node.stat.czxid:
            return True
        if store.last_zxid >> 32 != term and restarts < _MAX_RESTARTS:
            term, restarts = store.last_zxid >> 32, restarts + 1
            end_s = loop.time() + limit_s
        elif is_last:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_POLL_S, max(0.0, end_s - loop.time()))):
                await hint.wait()
