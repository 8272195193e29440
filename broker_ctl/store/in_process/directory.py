"""The state in a directory of this machine, held by a lock on a file in it.

The system ends the lock with the process, however that ends, and no pause of the process does: so a
hold needs no renewal, and there is never a second holder.
"""

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker_ctl.errors import Ambiguous, ConnectionLoss, SessionExpired
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.store.in_process.keeper import EMPTY

_LOCK: Final = "lock"
_STATE: Final = "state.json"
_NEW: Final = "state.json.new"
_PRIVATE: Final = 0o600
_MAX_BYTES: Final = 64 << 20


class DirectoryKeeper:
    """See `StateKeeper`; a lone instance, or several on one machine."""

    most_bytes = 16 << 20

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock: int | None = None

    async def read(self) -> bytes:
        """See `StateKeeper.read`."""
        return await asyncio.to_thread(self._read)

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # a lock does not end
        """See `StateKeeper.acquire`.

        Raises:
            ConnectionLoss: another process holds it, or the directory cannot be used.
        """
        return await asyncio.to_thread(self._acquire)

    async def renew(self) -> None:
        """See `StateKeeper.renew`.

        Raises:
            SessionExpired: the lock file was removed or replaced: others can hold the new one.
        """
        if not await asyncio.to_thread(self._is_held):
            self._unlock()
            raise SessionExpired(f"the lock in {self._directory} was removed")

    async def write(self, state: bytes) -> None:
        """See `StateKeeper.write`."""
        await self.renew()
        try:
            await asyncio.to_thread(self._write, state)
        except OSError as error:
            raise Ambiguous(f"cannot write to {self._directory}: {error}", 0, 0) from error

    async def release(self) -> None:
        """See `StateKeeper.release`."""
        self._unlock()

    async def close(self) -> None:
        """There are no connections."""

    def _read(self) -> bytes:
        try:
            # Who writes it gives an operator's directives.
            return read_guarded(self._directory / _STATE, max_bytes=_MAX_BYTES)
        except FileNotFoundError:
            return EMPTY
        except OSError as error:
            raise ConnectionLoss(f"cannot read {self._directory / _STATE}: {error}") from error

    def _acquire(self) -> bytes:
        path = self._directory / _LOCK
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
        except OSError as error:
            raise ConnectionLoss(f"cannot use {self._directory}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            raise ConnectionLoss(f"process {holder or '?'} holds {path}: waiting") from error
        self._lock = lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return self._read()

    def _is_held(self) -> bool:
        if self._lock is None:
            return False
        with suppress(FileNotFoundError):
            there, ours = (self._directory / _LOCK).stat(), os.fstat(self._lock)
            return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
        return False

    def _write(self, state: bytes) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new one."""
        new = self._directory / _NEW
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
        with os.fdopen(file, "wb") as out:
            out.write(state)
            out.flush()
            os.fsync(out.fileno())
        new.rename(self._directory / _STATE)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
