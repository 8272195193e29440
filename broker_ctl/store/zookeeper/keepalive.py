"""Pings while nothing else is said, and the end of a connection that does not answer."""

import asyncio
from typing import Final

from broker_ctl.store.zookeeper.connection import Connection

# Of the session timeout (docs: pulsar-session-watcher): the period allows several pings to be
# lost, the limit leaves two thirds of the session to reach another server.
_PERIODS: Final = 12
_LIMITS: Final = 3


async def keep_alive(connection: Connection, timeout_s: float) -> None:
    """Watch over ``connection`` until it ends; ``timeout_s`` is the session's."""
    period_s, limit_s = timeout_s / _PERIODS, timeout_s / _LIMITS
    while not connection.is_closed:
        await asyncio.sleep(period_s)
        if connection.unanswered_s > limit_s:
            # After a stall of this loop the answer may lie in the socket: let it be read.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if (silent_s := connection.unanswered_s) > limit_s:
                connection.abort(f"no answer for {silent_s:.1f} s")
        elif connection.idle_s >= period_s:
            connection.send_ping()
