"""Who may write, and where what is written outlives the process: one protocol, several places.

Holding is the session of `InProcessStore`: a process has one while it holds the state, so that
lease, election and everything above them work as they do over ZooKeeper.
"""

from typing import Final, Protocol

from broker_ctl.errors import NoAuth

EMPTY: Final = b""


class StateKeeper(Protocol):
    """Keeps one state, of which at most one process is the holder."""

    @property
    def most_bytes(self) -> int:
        """The largest state that can be kept."""
        ...

    async def read(self) -> bytes:
        """The state as it is now, held or not; `EMPTY` if there is none yet.

        Raises:
            StoreError: it cannot be read.
        """
        ...

    async def acquire(self, timeout_s: float) -> bytes:
        """Wait until this process is the holder; returns the state.

        The hold ends ``timeout_s`` after the newest `acquire` or `renew` was sent, at the earliest.

        Raises:
            StoreError: it cannot become the holder now; another attempt may succeed.
        """
        ...

    async def renew(self) -> None:
        """Prolong the hold.

        Raises:
            SessionExpired: another process is the holder, or may be.
            StoreError: there was no answer; the hold lasts as long as before.
        """
        ...

    async def write(self, state: bytes) -> None:
        """Replace the state, durably, if this process is still the holder.

        Raises:
            SessionExpired: another process is the holder, or may be; nothing was written.
            Ambiguous: the state may have been written.
        """
        ...

    async def release(self) -> None:
        """End the hold, so that another process need not wait for its end."""
        ...

    async def close(self) -> None:
        """Close connections; the hold stays."""
        ...


class Forgetful:
    """Keeps nothing: the state ends with the process, which is the only one."""

    most_bytes = 1 << 30

    async def read(self) -> bytes:
        """Nothing was kept."""
        return EMPTY

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # it never ends
        """Hold at once."""
        return EMPTY

    async def renew(self) -> None:
        """The hold never ends."""

    async def write(self, state: bytes) -> None:
        """The state stays in the store's own memory."""

    async def release(self) -> None:
        """Nobody waits."""

    async def close(self) -> None:
        """There are no connections."""


class Spectator:
    """Reads what another process holds, and writes nothing."""

    def __init__(self, inner: StateKeeper) -> None:
        self._inner = inner
        self.most_bytes = inner.most_bytes

    async def read(self) -> bytes:
        """See `StateKeeper.read`."""
        return await self._inner.read()

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # nothing is held
        """The state as it is now."""
        return await self._inner.read()

    async def renew(self) -> None:
        """There is nothing to prolong."""

    async def write(self, state: bytes) -> None:
        """Refuse.

        Raises:
            NoAuth: always.
        """
        raise NoAuth(f"{len(state)} bytes of state: this process only looks")

    async def release(self) -> None:
        """There is nothing to end."""

    async def close(self) -> None:
        """See `StateKeeper.close`."""
        await self._inner.close()
