"""A full copy of the nodes at one depth, keeping the last good value of each.

For what operators set: a corrupt payload must not replace the last good value.
"""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

from broker_ctl.coordination.replicated.tree_cache import TreeCache
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store.interface import MetadataStore, Notification, Versioned
from broker_ctl.store.path_rules import is_at_or_below

log = logging.getLogger(__name__)

T = TypeVar("T")


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

    async def _read(self, names: list[str] | None) -> bool:
        before = dict(self._values)
        if names is None:
            names = await self._paths()
            known = set(names)
            self._values = {path: value for path, value in self._values.items() if path in known}
        nodes = await self._store.get_many(names)
        for path, node in zip(names, nodes, strict=True):
            if node is None:
                self._values.pop(path, None)
                continue
            try:
                self._values[path] = self._decode(node)
            except (CorruptRecord, NewerVersion) as error:
                self.corrupt += 1
                kept = "its last good value stays" if path in self._values else "left out"
                log.warning("%s; %s", error, kept)
        return self._values != before
