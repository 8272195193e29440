"""A table of answers, bounded in number and in bytes; it evicts the least recently used first."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# An entry in the table and its path beside the path's letters, as measured with tracemalloc.
_OVERHEAD_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One answer of the store.

    Attributes:
        answer: shared by all callers, so never modified.
        payload_bytes: estimated size of the answer in memory.
        mzxid: of the node that was read; 0 if it is absent, or if its Stat is not known.
        version: of that node's data; -1 if it is absent, or if its Stat is not known.
        read_at_s: when the read began, on the cache's clock: the answer is not newer than that.
    """

    answer: T
    payload_bytes: int
    mzxid: int = 0
    version: int = -1
    read_at_s: float = 0.0


class Entries(Generic[T]):
    """Entries by path, in the order of their last use.

    Attributes:
        find: the entry of a path, or None, without counting as a use.
        touch: count a use of the entry of a path, which is there.
    """

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._by_path: OrderedDict[str, Entry[T]] = OrderedDict()
        # Each lookup calls them several times: methods of our own would take as long again.
        self.find: Final[Callable[[str], Entry[T] | None]] = self._by_path.get
        self.touch: Final[Callable[[str], None]] = self._by_path.move_to_end
        self.size_bytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._by_path)

    def put(self, path: str, entry: Entry[T]) -> None:
        """Store an entry, and evict others until the bounds hold."""
        self.drop(path)
        size_bytes = _size_bytes(path, entry)
        if size_bytes > self._most_bytes:
            # It would evict everything else first, and still not fit.
            self.evictions += 1
            return
        self._by_path[path] = entry
        self.size_bytes += size_bytes
        while self.size_bytes > self._most_bytes or len(self._by_path) > self._most_entries:
            self.drop(next(iter(self._by_path)))
            self.evictions += 1

    def drop(self, path: str) -> None:
        """Remove the entry of ``path``, if there is one."""
        entry = self._by_path.pop(path, None)
        if entry is not None:
            self.size_bytes -= _size_bytes(path, entry)

    def clear(self) -> None:
        """Remove all entries."""
        self._by_path.clear()
        self.size_bytes = 0


def _size_bytes(path: str, entry: Entry[T]) -> int:
    return _OVERHEAD_BYTES + len(path) + entry.payload_bytes
