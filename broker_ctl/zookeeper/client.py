"""A client of ZooKeeper: one session over any number of connections, on plain asyncio or uvloop.

Every call ends by its deadline. A read is sent again until then. A write whose reply was lost is
resolved by reading, and `Ambiguous` is raised only where the nodes cannot show what became of it.
A session ends when the servers say so, and the client opens the next one: what was ephemeral is
gone then, and locks of the former session are lost.
"""

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from broker_ctl.addresses import look_up_all
from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.errors import NodeExists, NoNode, NotEmpty, SettingsError
from broker_ctl.store.interface import (
    ANY_VERSION,
    CreateMode,
    Operation,
    Result,
    Stat,
    Versioned,
    requests_within,
)
from broker_ctl.store.zookeeper.access import AclEntry, Identity, NodeAccess
from broker_ctl.store.zookeeper.server_status import send_word
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore, parse_hosts
from broker_ctl.store.zookeeper.wire import pack_acl
from broker_ctl.zookeeper.changes import Changes
from broker_ctl.zookeeper.session import ClientSession

_WORD_LIMIT_S: Final = 3.0


class Client(ClientSession):
    """One session and its requests, from `start` to `close` or for the length of an ``async with``.

    Made by `connect`; recipes take it as their first argument.
    """

    # Reads.

    async def get(self, path: str, *, timeout_s: float | None = None) -> Versioned | None:
        """The node with its data and Stat, or None where it does not exist."""
        with requests_within(timeout_s):
            return await self.store.get(path)

    async def get_many(
        self, paths: Sequence[str], *, timeout_s: float | None = None
    ) -> list[Versioned | None]:
        """The nodes in the order of the paths, in as few requests as their size allows."""
        with requests_within(timeout_s):
            return await self.store.get_many(paths)

    async def exists(self, path: str, *, timeout_s: float | None = None) -> Stat | None:
        """The node's Stat, or None."""
        with requests_within(timeout_s):
            return await self.store.exists(path)

    async def children(self, path: str, *, timeout_s: float | None = None) -> list[str]:
        """Sorted names of the children; none where the node does not exist."""
        with requests_within(timeout_s):
            return await self.store.children(path)

    async def sync(self, path: str = "/", *, timeout_s: float | None = None) -> None:
        """Wait until the connected server has applied what the leader had committed."""
        with requests_within(timeout_s):
            await self.store.sync(path)

    # Writes.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
        acl: Sequence[AclEntry] | None = None,
        timeout_s: float | None = None,
    ) -> Versioned:
        """Create a node; returns it, with the name that the servers gave a sequential one.

        Args:
            path: absolute, below the chroot.
            data: at most jute.maxbuffer of the servers, 1 MiB by default.
            mode: persistent, ephemeral, sequential, container or TTL.
            ttl_ms: with CreateMode.TTL: how long the node may be without changes and children.
            make_parents: missing parents are made as containers, which end when they are empty.
            acl: of this node; default: that of `connect`.
            timeout_s: for this call.

        Raises:
            NodeExists: the node exists.
            NoNode: its parent does not.
            Unsupported: the servers have no nodes of this mode (TTL: extendedTypesEnabled).
        """
        with requests_within(timeout_s):
            if acl is None:
                return await self.store.create(
                    path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents
                )
            return await self._zookeeper.create(
                path,
                data,
                mode,
                ttl_ms=ttl_ms,
                make_parents=make_parents,
                acl=pack_acl([one.sent for one in acl]),
            )

    async def ensure(self, path: str, *, timeout_s: float | None = None) -> None:
        """Create a node without data, and its parents, unless it is there."""
        with requests_within(timeout_s):
            try:
                await self.store.create(path, make_parents=True)
            except NodeExists:
                return

    async def set(
        self,
        path: str,
        data: bytes,
        version: int = ANY_VERSION,
        *,
        timeout_s: float | None = None,
    ) -> Stat:
        """Replace the data; with a version only if it is still that of the node.

        Raises:
            NoNode, BadVersion: as named.
        """
        with requests_within(timeout_s):
            return await self.store.set(path, data, version)

    async def delete(
        self,
        path: str,
        version: int = ANY_VERSION,
        *,
        recursive: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete a node; ``recursive``: what is below it first, node by node.

        Raises:
            NoNode, BadVersion, NotEmpty: as named.
        """
        with requests_within(timeout_s):
            while True:
                try:
                    await self.store.delete(path, version)
                except NotEmpty:
                    if not recursive:
                        raise
                    for name in await self.store.children(path):
                        with suppress(NoNode):
                            await self.delete(f"{path}/{name}", recursive=True)
                else:
                    return

    async def multi(
        self, operations: Sequence[Operation], *, timeout_s: float | None = None
    ) -> tuple[Result, ...]:
        """All operations (`Create`, `SetData`, `Delete`, `Check`) or none.

        Raises:
            MultiFailed: names the operation that failed, and why; nothing was done.
        """
        with requests_within(timeout_s):
            return await self.store.multi(operations)

    # Watches.

    def watch(self, path: str, *, recursive: bool = False) -> Changes:
        """Changes of a node, or with ``recursive`` of all below it too; see `Changes`."""
        return Changes(self, path, is_recursive=recursive)

    # Administration.

    async def get_acl(self, path: str) -> tuple[AclEntry, ...]:
        """The access control list of a node.

        Raises:
            NoNode, NoAuth: as named.
        """
        return await self._zookeeper.get_acl(path)

    async def set_acl(self, path: str, acl: Sequence[AclEntry]) -> None:
        """Replace the access control list of a node.

        Raises:
            NoNode, NoAuth: as named.
        """
        await self._zookeeper.set_acl(path, acl)

    async def reconfig(
        self, *, joining: str = "", leaving: str = "", members: str = "", version: int = ANY_VERSION
    ) -> bytes:
        """Change the members of the ensemble; see `ZooKeeperStore.reconfig`."""
        return await self._zookeeper.reconfig(joining, leaving, members, version)

    @property
    def _zookeeper(self) -> ZooKeeperStore:
        assert isinstance(self.store, ZooKeeperStore), "only servers have lists and members"
        return self.store


def connect(
    hosts: str,
    *,
    chroot: str = "",
    session_timeout_s: float = 15.0,
    request_timeout_s: float = 15.0,
    tick_time_s: float = 2.0,
    digests: Sequence[str] = (),
    sasl: str = "",
    tls: ssl.SSLContext | None = None,
    restrict: bool | None = None,
    readers: Sequence[AclEntry] = (),
    max_attempts: int = -1,
    lease_path: str = "/leases",
) -> Client:
    """A client that is yet to be started, by ``async with`` or `Client.start`.

    Args:
        hosts: ``host:port,host:port``; each address of each name is a server, tried at random.
        chroot: prefix of every path; it is created where it is missing.
        session_timeout_s: asked for; the servers clamp it. Locks and elections need at least five
            heartbeats within it, each a quarter of a second longer than a tick or a tenth of it.
        request_timeout_s: every call without a limit of its own ends by then.
        tick_time_s: tickTime of the servers, from which leases are reckoned.
        digests: ``user:password`` for the scheme ``digest``.
        sasl: ``user:password`` for SASL DIGEST-MD5.
        tls: for TLS, with a client certificate or without.
        restrict: whether created nodes belong to this client's identity alone; default: where it
            has a digest or SASL. With a client certificate it is to be said.
        readers: who may read such nodes besides.
        max_attempts: to connect, once the servers have been away for longer than the session may
            live; -1: no limit.
        lease_path: see `Client`.

    Raises:
        StoreError: ``hosts`` cannot be read.
        ValueError: ``session_timeout_s`` is too short for the tick.
    """
    parse_hosts(hosts)
    try:
        LeaseRules(session_timeout_s, tick_time_s).check()
    except SettingsError as error:
        least_s = 5 * LeaseRules(session_timeout_s, tick_time_s).period_s
        raise ValueError(
            f"session_timeout_s={session_timeout_s:g} is too short for tick_time_s="
            f"{tick_time_s:g}: at least {least_s:g}"
        ) from error
    identity = Identity([one.encode() for one in digests], sasl.encode())
    is_restricted = identity.is_known if restrict is None else restrict
    store = ZooKeeperStore(
        StoreOptions(
            hosts,
            chroot,
            session_timeout_s=session_timeout_s,
            operation_timeout_s=request_timeout_s,
            identity=identity,
            access=NodeAccess(is_restricted, readers),
            tls=tls,
            max_retries=max_attempts,
        )
    )
    return Client(store, tick_time_s=tick_time_s, lease_path=lease_path)


async def server_status(
    hosts: str, *, tls: ssl.SSLContext | None = None, limit_s: float = _WORD_LIMIT_S
) -> Mapping[str, Mapping[str, str]]:
    """What each server says to ``srvr``, by its address; without an answer one key, ``error``.

    Raises:
        StoreError: ``hosts`` cannot be read.
    """
    found: dict[str, Mapping[str, str]] = {}
    for server in await look_up_all(parse_hosts(hosts), limit_s):
        try:
            answer = await send_word(server, "srvr", limit_s=limit_s, tls=tls)
        except (OSError, TimeoutError) as error:
            found[str(server)] = {"error": str(error) or "no answer"}
            continue
        lines = (line.partition(":") for line in answer.splitlines())
        found[str(server)] = {key.strip(): value.strip() for key, _, value in lines if value}
    return found
