"""An operator, or a tool, deletes a persistent node that brokers have made, at any time."""

from collections.abc import Iterator
from typing import Final

from broker_ctl.store.interface import Delete
from tests.deterministic.faults.faults import Faults
from tests.deterministic.world.cluster import Cluster

# What says itself what is to be: with it goes what it says, and nobody can know better.
_SAID_BY_OPERATORS: Final = ("/admin/policies", "/brokers/topics", "/config", "/counters")
_SHARE: Final = 7
_LOSING: Final = 3


def loses_nodes(seed: int) -> bool:
    """Whether nodes are deleted in this schedule."""
    return seed % _SHARE == _LOSING


class LostNodes:
    """Counted with all other faults."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._rng = cluster.draws

    async def delete_any(self) -> None:
        """A node, with those below it if none of them belongs to a session."""
        roots = [path for path in self._paths() if not self._owns_sessions(path)]
        if not roots:
            return
        root = self._rng.choice(roots)
        self._faults.note("lost node", root)
        for path in [*self._below(root)][::-1]:
            self._cluster.ensemble.write_as_admin([Delete(path)])

    def _paths(self) -> Iterator[str]:
        for node in self._cluster.ensemble.tree.nodes():
            is_said = any(f"{node.path}/".startswith(f"{one}/") for one in _SAID_BY_OPERATORS)
            is_above = any(one.startswith(f"{node.path}/") for one in _SAID_BY_OPERATORS)
            if node.path != "/" and not (node.stat.is_ephemeral or is_said or is_above):
                yield node.path

    def _below(self, root: str) -> Iterator[str]:
        """It, and all below, in the order in which they can be created."""
        yield root
        for name in self._cluster.ensemble.tree.children(root):
            yield from self._below(f"{root}/{name}")

    def _owns_sessions(self, root: str) -> bool:
        nodes = map(self._cluster.ensemble.tree.find, self._below(root))
        return any(node is not None and node.stat.is_ephemeral for node in nodes)
