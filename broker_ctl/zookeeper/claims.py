"""Names that one client holds at a time, by an ephemeral node of that name."""

import logging
from typing import Final

from broker_ctl.errors import AuthorityLost, NodeExists, NoNode, SessionExpired
from broker_ctl.retry import retry
from broker_ctl.store.interface import CreateMode, RequestClass, requests_as
from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.session import ClientSession

_ANY_ZXID: Final = 0


async def claim(client: ClientSession, path: str, data: bytes = b"") -> Held | None:
    """Hold a name that nobody holds; None: somebody does.

    Raises:
        StoreError: what has ended the session for good, or another refusal of the servers.
    """
    store = client.store
    epoch = await client.holds.wait_epoch(client.check_open)
    with requests_as(RequestClass.CONTROL):
        try:
            made = await store.create(path, data, CreateMode.EPHEMERAL, make_parents=True)
        except (NodeExists, SessionExpired):
            return None
        except BaseException:
            # A caller that is cancelled may have sent it.
            client.holds.start(_remove(client, path, epoch, _ANY_ZXID), "give up a claim")
            raise
        czxid = made.stat.czxid

        async def leave() -> None:
            if (stop := held.stop_watching) is not None:
                held.stop_watching = None
                stop()
            await _remove(client, path, epoch, czxid)

        try:
            held = client.holds.add(path, czxid, epoch, leave)
        except AuthorityLost:
            client.holds.start(_remove(client, path, epoch, czxid), "give up a claim")
            return None
        try:
            held.stop_watching = await store.watch(path, held.on_change)
            stat = await store.exists(path)
        except BaseException:
            held.lose("it could not be watched")
            raise
        if stat is None or stat.czxid != czxid:
            held.lose("its node was deleted")
            return None
        return held


async def _remove(client: ClientSession, path: str, epoch: int, czxid: int) -> None:
    """Delete the node if it is still that of this session; ``czxid`` 0: whichever that is."""
    store = client.store

    async def remove() -> None:
        stat = await store.exists(path)
        if stat is None or not client.holds.is_current(epoch):
            return
        if stat.ephemeral_owner != store.session_id or czxid not in {_ANY_ZXID, stat.czxid}:
            return
        try:
            await store.delete(path)
        except NoNode:
            return

    with requests_as(RequestClass.CONTROL):
        await retry(
            remove,
            f"cannot give up {path}",
            rng=client.rng,
            judge=client.may_answer,
            level=logging.DEBUG,
        )
