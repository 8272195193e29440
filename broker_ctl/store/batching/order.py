"""Order of requests on a path: first come, first served, whatever their lane.

Several batches are in flight at once, and one that fails is sent again in parts, so the order of
the connection is not enough. A write holds its path exclusively from the moment it may be sent
until its caller has the answer; reads share a path, and so do the checks of transactions.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar


class Claimant(Protocol):
    """A request that claims paths.

    ``turns`` counts the paths on which another claimant is ahead of it.
    """

    turns: int

    @property
    def alone(self) -> Sequence[str]:
        """Paths that it holds exclusively."""
        ...

    @property
    def shared(self) -> Sequence[str]:
        """Paths that it shares with other claimants."""
        ...


C = TypeVar("C", bound=Claimant)

# Holders of a path without a queue: the number of sharers, or the exclusive holder.
_ALONE: Final = -1


class _Line(Generic[C]):
    """A path with a queue. ``holders`` as above."""

    __slots__ = ("holders", "waiting")

    def __init__(self, holders: int) -> None:
        self.holders = holders
        self.waiting: deque[tuple[C, bool]] = deque()


class PathOrder(Generic[C]):
    """Claims on paths, granted in the order in which they were made."""

    def __init__(self) -> None:
        self._lines: dict[str, int | _Line[C]] = {}

    def __len__(self) -> int:
        """Paths on which there is any claim."""
        return len(self._lines)

    def acquire_shared(self, path: str) -> bool:
        """`enter` for a claimant with one shared path, if no claimant is before it; else False."""
        holders = self._lines.get(path, 0)
        if isinstance(holders, _Line) or holders == _ALONE:
            return False
        self._lines[path] = holders + 1
        return True

    def acquire_exclusive(self, path: str) -> bool:
        """`enter` for a claimant with one path alone, if no claimant is before it; else False."""
        if path in self._lines:
            return False
        self._lines[path] = _ALONE
        return True

    def release_shared(self, path: str) -> bool:
        """`leave` for one shared path, if no claimant waits; else do nothing and return False."""
        holders = self._lines[path]
        if isinstance(holders, _Line):
            return False
        if holders == 1:
            del self._lines[path]
        else:
            self._lines[path] = holders - 1
        return True

    def enter(self, claimant: C) -> bool:
        """Claim all its paths; return whether it may be sent.

        If not, a later `leave` returns it.
        """
        claimant.turns = 0
        for path in claimant.alone:
            self._claim(claimant, path, is_shared=False)
        for path in claimant.shared:
            self._claim(claimant, path, is_shared=True)
        return claimant.turns == 0

    def _claim(self, claimant: C, path: str, *, is_shared: bool) -> None:
        if self.acquire_shared(path) if is_shared else self.acquire_exclusive(path):
            return
        line = self._lines[path]
        if not isinstance(line, _Line):
            line = self._lines[path] = _Line(line)
        line.waiting.append((claimant, is_shared))
        claimant.turns += 1

    def leave(self, paths: Sequence[str]) -> list[C]:
        """Release granted claims.

        Return the claimants that may be sent now, in the order of their claims.
        """
        ready: list[C] = []
        for path in paths:
            line = self._lines[path]
            if isinstance(line, _Line):
                self._leave_line(path, line, ready)
            elif line > 1:
                self._lines[path] = line - 1
            else:
                del self._lines[path]
        return ready

    def _leave_line(self, path: str, line: _Line[C], ready: list[C]) -> None:
        line.holders = 0 if line.holders == _ALONE else line.holders - 1
        while line.waiting:
            claimant, is_shared = line.waiting[0]
            if line.holders and not (is_shared and line.holders > 0):
                return
            line.waiting.popleft()
            line.holders = line.holders + 1 if is_shared else _ALONE
            claimant.turns -= 1
            if not claimant.turns:
                ready.append(claimant)
        self._lines[path] = line.holders
