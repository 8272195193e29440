"""A full copy of the nodes at one depth, keeping the last good value of each.

For what operators set: a corrupt payload must not replace the last good value.
"""

import logging
import random
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from broker_ctl.coordination.replicated.tree_cache import TreeCache
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store.interface import MetadataStore, Notification, Versioned
from broker_ctl.store.path_rules import is_at_or_below

log = logging.getLogger(__name__)

T = TypeVar("T")

# A value may be None.
_ABSENT: Final = object()


class NodeCache(TreeCache[T]):
    """Values of the nodes ``depth`` steps below ``root`` by path; 0 is the root itself.

    Unlike in a `TreeCache`, a node that no longer decodes keeps its last value; one that never did
    is left out. Both are logged and counted.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        decode: Callable[[Versioned], T],
        depth: int = 0,
        *,
        rng: random.Random,
    ) -> None:
        super().__init__(store, root, decode, rng=rng)
        self._depth = depth

    def _changed(self, notification: Notification) -> None:
        path = notification.path
        if is_at_or_below(self._root, path) and self._depth_of(path) == self._depth:
            self._mark(path)

    def _depth_of(self, path: str) -> int:
        return path.count("/") - self._root.count("/")

    async def _paths(self) -> list[str]:
        paths = [self._root]
        for _ in range(self._depth):
            below = [(path, await self._store.children(path)) for path in paths]
            paths = [f"{path}/{name}" for path, names in below for name in names]
        return paths

    async def _read(self, names: list[str] | None) -> Collection[str]:
        gone: set[str] = set()
        if names is None:
            names = await self._paths()
            gone = self._values.keys() - set(names)
        nodes = await self._store.get_many(names)
        for path in gone:
            del self._values[path]
        changed = [path for path, node in zip(names, nodes, strict=True) if self._take(path, node)]
        return [*sorted(gone), *changed]

    def _take(self, name: str, node: Versioned | None) -> bool:
        before: object = self._values.get(name, _ABSENT)
        if node is None:
            self._values.pop(name, None)
            return before is not _ABSENT
        try:
            self._values[name] = self._decode(node)
        except (CorruptRecord, NewerVersion) as error:
            self.corrupt += 1
            kept = "its last good value stays" if name in self._values else "left out"
            log.warning("%s; %s", error, kept)
            return False
        return self._values[name] != before
