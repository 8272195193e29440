"""Access control of nodes: what new ones get, and whether the existing ones are open."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from broker_ctl import errors
from broker_ctl.store.interface import Check, Create, Operation, Result
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import AclEntry, NodeAccess, get_acl, set_acl
from broker_ctl.store.zookeeper.requests import Requests

_AT_ONCE: Final = 64
_EXAMPLES: Final = 5
_PROBED: Final = 64
_PROBE_S: Final = 5.0
_PROBE_NAME: Final = "broker-ctl-probe"
# A node that was just created is at version 0, so the transaction is always rolled back.
_NEVER: Final = 0x7FFFFFFF
# The servers' own nodes, which they guard themselves.
_OF_SERVERS: Final = "/zookeeper"


class AnonymousStore(Protocol):
    """A store of the same servers and chroot whose session has no identity."""

    async def start(self) -> None:
        """Connect in the background."""
        ...

    async def wait_connected(self) -> None:
        """Return once the session is connected."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """All operations or none."""
        ...

    async def close(self) -> None:
        """Close the session."""
        ...


@dataclass(frozen=True, slots=True)
class NodeAcl:
    """A node and its list; ``acl`` is None where this identity may not read it."""

    path: str
    acl: tuple[AclEntry, ...] | None


@dataclass(slots=True)
class AclCount:
    """What a walk found.

    Attributes:
        nodes: looked at.
        open: of these, open to clients without an identity.
        foreign: of these, closed to this client's identity.
        examples: paths of some open ones.
        foreign_examples: paths of some that are closed to us.
        is_complete: whether the walk saw all nodes.
    """

    nodes: int = 0
    open: int = 0
    foreign: int = 0
    examples: list[str] = field(default_factory=list)
    foreign_examples: list[str] = field(default_factory=list)
    is_complete: bool = True


class AccessControl:
    """The lists of one store's nodes.

    Args:
        requests: of the store, with its chroot.
        root: the chroot, or empty.
        access: who may use the nodes.
        open_anonymous: builds a store without an identity, not started.
        top: the node that is judged with all below it; others are left alone.
    """

    def __init__(
        self,
        requests: Requests,
        root: str,
        access: NodeAccess,
        open_anonymous: Callable[[], AnonymousStore],
        top: str = "/",
    ) -> None:
        self._requests = requests
        self._root = root
        self._access = access
        self._open_anonymous = open_anonymous
        self._top = top

    async def walk(self, most: int | None = None) -> AsyncIterator[NodeAcl]:
        """The nodes, parents before children, at most ``most``.

        Nodes that are created or deleted meanwhile may be missing.

        Raises:
            StoreError: the store does not answer by its deadline.
        """
        waiting, seen = deque([self._top]), 0
        while waiting and (most is None or seen < most):
            paths = [waiting.popleft() for _ in range(min(_AT_ONCE, len(waiting)))]
            async with asyncio.TaskGroup() as group:
                looks = [group.create_task(self._look(path), name="read ACL") for path in paths]
            for look in looks:
                found = look.result()
                if found is None:
                    continue
                node, children = found
                base = "" if node.path == "/" else node.path
                below = [f"{base}/{name}" for name in children]
                waiting.extend(path for path in below if self._root or path != _OF_SERVERS)
                seen += 1
                yield node

    async def count(
        self, most: int | None = None, report: Callable[[int], None] = lambda _: None
    ) -> AclCount:
        """Walk, and count open nodes; raises as `walk`.

        Args:
            most: how many nodes to look at; None: all.
            report: called with the number of nodes so far, at each of them.
        """
        found = AclCount()
        async for node in self.walk(most):
            found.nodes += 1
            report(found.nodes)
            if node.acl is None:
                found.foreign += 1
                found.foreign_examples += [node.path][: _EXAMPLES - len(found.foreign_examples)]
            elif self._access.opens(node.acl):
                found.open += 1
                found.examples += [node.path][: _EXAMPLES - len(found.examples)]
        found.is_complete = most is None or found.nodes < most
        return found

    def is_open(self, node: NodeAcl) -> bool:
        """Whether clients without an identity have more rights than they should."""
        return node.acl is not None and self._access.opens(node.acl)

    async def close_node(self, path: str) -> bool:
        """Give a node the list of the nodes that this client creates; False if it is gone.

        Raises:
            NoAuth: this identity may not change the list.
        """
        try:
            await self._requests.read(set_acl(path, self._access.acl, self._root))
        except errors.NoNode:
            return False
        return True

    async def anonymously_writable(self) -> tuple[str, ...]:
        """The nodes nearest to the root where a session without an identity may create others.

        Nothing is written: each attempt is in a transaction that cannot succeed. It finds what
        the lists do not show, such as servers that check no lists (skipACL).

        Raises:
            StoreError: the store does not answer by its deadline.
        """
        paths = [node.path async for node in self.walk(_PROBED)]
        stranger = self._open_anonymous()
        await stranger.start()
        try:
            # Servers that require an identity never grant this session.
            async with asyncio.timeout(_PROBE_S):
                await stranger.wait_connected()
                writable = [path for path in paths if await _accepts_child(stranger, path)]
        except (TimeoutError, errors.SessionError, errors.ConnectionLoss):
            return ()
        finally:
            await stranger.close()
        return tuple(islice(writable, _EXAMPLES))

    async def _look(self, path: str) -> tuple[NodeAcl, list[str]] | None:
        """The node and the names of its children; None if it is gone."""
        try:
            acl = await self._requests.read(get_acl(path, self._root))
            children = await self._requests.read(wire.children(path, self._root))
        except errors.NoNode:
            return None
        except errors.NoAuth:
            return NodeAcl(path, None), []
        return NodeAcl(path, acl), children


async def _accepts_child(stranger: AnonymousStore, parent: str) -> bool:
    path = f"{parent.rstrip('/')}/{_PROBE_NAME}"
    try:
        await stranger.multi([Create(path), Check(path, _NEVER)])
    except errors.MultiFailed as failed:
        return failed.index > 0
    return True
