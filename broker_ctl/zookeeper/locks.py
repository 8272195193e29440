"""Locks and semaphores whose holders have a token and a lease."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.line import Ahead, enter, in_line
from broker_ctl.zookeeper.session import ClientSession

_T = TypeVar("_T")

_LOCK: Final = "lock-"
_READ: Final = "__READ__"
_WRITE: Final = "__WRIT__"
_LEASE: Final = "lease-"


class _Contended:
    """Something to stand in line for; ``async with`` holds it for the length of the block."""

    def __init__(
        self, client: ClientSession, path: str, kind: str, ahead: Ahead, identifier: str
    ) -> None:
        self.path: Final = path
        self._client = client
        self._kind = kind
        self._ahead = ahead
        self._data = identifier.encode()
        # By task: one object may be used by several, each of which stands in line.
        self._held: dict[asyncio.Task[object] | None, list[Held]] = {}

    async def acquire(self, timeout_s: float | None = None) -> Held:
        """Hold it, once everybody is gone who came before.

        Raises:
            TimeoutError: it was not had in time; its place in line is given up.
            StoreError: what has ended the session for good, or another refusal of the servers.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await enter(self._client, self.path, self._kind, self._ahead, self._data)
        except TimeoutError:
            raise TimeoutError(f"{self.path} was not had within {timeout_s:g} s") from None

    async def contenders(self) -> list[str]:
        """The identifiers of those in line, the holder first."""
        store = self._client.store
        names = in_line(await store.children(self.path))
        nodes = await store.get_many([f"{self.path}/{name}" for name in names])
        return [node.data.decode(errors="replace") for node in nodes if node is not None]

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._held.setdefault(asyncio.current_task(), []).append(held)
        return held

    async def __aexit__(self, *_: object) -> None:
        task = asyncio.current_task()
        stack = self._held[task]
        held = stack.pop()
        if not stack:
            del self._held[task]
        await held.release()


def _directly_ahead(names: Sequence[str], index: int) -> Sequence[str]:
    return names[index - 1 : index]


class Lock(_Contended):
    """A lock, in the order of arrival: Curator's InterProcessSemaphoreMutex, kazoo's Lock.

    ``async with Lock(client, path) as held:`` gives what is held: `Held.token`, `Held.lost`,
    `Held.check`. It is not reentrant, and one object may be used by any number of tasks.

    Args:
        path: of the lock; contenders are its children.
        identifier: shown to others by `contenders`.
    """

    def __init__(self, client: ClientSession, path: str, identifier: str = "") -> None:
        super().__init__(client, path, _LOCK, _directly_ahead, identifier)


class ReentrantLock(Lock):
    """A lock that the task which holds it may take again: Curator's InterProcessMutex.

    It is released once each of its holders has left; all of them have the same token.
    """

    def __init__(self, client: ClientSession, path: str, identifier: str = "") -> None:
        super().__init__(client, path, identifier)
        self._counts: dict[Held, int] = {}

    async def __aenter__(self) -> Held:
        task = asyncio.current_task()
        stack = self._held.get(task)
        if not stack:
            held = await super().__aenter__()
            self._counts[held] = 1
            return held
        # What was lost is not taken again within: the block around it has to end first.
        stack[-1].check()
        self._counts[stack[-1]] += 1
        return stack[-1]

    async def __aexit__(self, *_: object) -> None:
        held = self._held[asyncio.current_task()][-1]
        self._counts[held] -= 1
        if not self._counts[held]:
            del self._counts[held]
            await super().__aexit__()


class ReadWriteLock:
    """Two locks of one path: any number of readers, or one writer.

    A reader waits for the last writer before it, a writer for all before it, so none starves.
    As Curator's InterProcessReadWriteLock, and kazoo's ReadLock and WriteLock.

    Attributes:
        read: shared with other readers.
        write: shared with nobody.
    """

    def __init__(self, client: ClientSession, path: str, identifier: str = "") -> None:
        self.read: Final = _Contended(client, path, _READ, _last_writer_ahead, identifier)
        self.write: Final = _Contended(client, path, _WRITE, _directly_ahead, identifier)


def _last_writer_ahead(names: Sequence[str], index: int) -> Sequence[str]:
    # kazoo's writers have its own mark; whatever is no reader is waited for.
    return [name for name in names[:index] if _READ not in name and "__rlock__" not in name][-1:]


class Semaphore(_Contended):
    """Up to ``most`` holders at a time: Curator's InterProcessSemaphoreV2, kazoo's Semaphore.

    Everybody has to say the same number. Who waits reads the line again when any holder leaves.
    """

    def __init__(self, client: ClientSession, path: str, most: int, identifier: str = "") -> None:
        if most < 1:
            raise ValueError(f"most={most}: at least 1")
        self.most: Final = most
        super().__init__(client, path, _LEASE, self._too_many_ahead, identifier)

    def _too_many_ahead(self, names: Sequence[str], index: int) -> Sequence[str]:
        return [] if index < self.most else names[:index]


class Election(_Contended):
    """One leader at a time, in the order of arrival: kazoo's Election, Curator's LeaderSelector.

    The token of what the leader holds is larger than that of each leader before.
    """

    def __init__(self, client: ClientSession, path: str, identifier: str = "") -> None:
        super().__init__(client, path, _LOCK, _directly_ahead, identifier)

    async def leader(self) -> str | None:
        """The identifier of the leader, or None while there is none."""
        contenders = await self.contenders()
        return contenders[0] if contenders else None

    async def run(
        self, lead: Callable[[Held], Coroutine[Any, Any, _T]], timeout_s: float | None = None
    ) -> _T:
        """Wait to be elected, and call ``lead``; it is cancelled when the leadership is lost.

        Raises:
            AuthorityLost: it was lost before ``lead`` had ended; call again to stand again.
            TimeoutError: not elected in time.
        """
        async with await self.acquire(timeout_s) as held:
            return await held.run(lead(held))
