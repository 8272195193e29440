"""What has to change in a tree, so that it shows the nodes that a cluster would have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker_ctl.store.in_process.tree import Author, Tree
from broker_ctl.store.interface import Create, CreateMode, Delete, Operation, SetData, Versioned
from broker_ctl.store.path_rules import ROOT, ancestors_of, is_at_or_below

_NO_RUN: Final = 0


class Projected(NamedTuple):
    """One node of the cluster.

    Attributes:
        run: which run of which broker it belongs to, as the session of an ephemeral node does; 0:
            it belongs to none. A node of another run is another node, with another czxid.
    """

    data: bytes
    run: int = _NO_RUN


def changes(
    tree: Tree, root: str, wanted: Mapping[str, Projected], now_ms: int
) -> Iterator[tuple[Sequence[Operation], Author]]:
    """Transactions after which ``wanted`` are the nodes with data at ``root`` and below.

    They are worked out one after the other, each on the tree with the earlier ones applied.
    """
    there = {node.path: node for node in tree.nodes() if is_at_or_below(root, node.path)}
    parents = {ancestor for path in wanted for ancestor in ancestors_of(path)}
    # Children before their parents.
    for path in sorted(there, reverse=True):
        if path not in wanted and path not in parents and path != ROOT:
            yield [Delete(path)], Author(_NO_RUN, now_ms)
    for path, node in sorted(wanted.items()):
        for ancestor in ancestors_of(path):
            if tree.find(ancestor) is None:
                yield [Create(ancestor)], Author(_NO_RUN, now_ms)
        if operations := list(_operations(path, node, tree.find(path))):
            yield operations, Author(node.run, now_ms)


def _operations(path: str, node: Projected, known: Versioned | None) -> Iterator[Operation]:
    mode = CreateMode.EPHEMERAL if node.run else CreateMode.PERSISTENT
    if known is not None and known.stat.ephemeral_owner != node.run:
        yield Delete(path)
        known = None
    if known is None:
        yield Create(path, node.data, mode)
    elif known.data != node.data:
        yield SetData(path, node.data)
