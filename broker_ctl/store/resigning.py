"""Finds persistent nodes whose signature is missing, not valid or of an old key, and signs them.

Ephemeral nodes are left out: only the session that owns them can sign them, at its next restart.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from broker_ctl.errors import BadVersion, NoNode
from broker_ctl.store.interface import BulkStore, Versioned
from broker_ctl.store.signed import (
    PERSISTENT_GRANDPARENTS,
    PERSISTENT_NODES,
    PERSISTENT_PARENTS,
    ZnodeSignatures,
    family_of,
)

_OLD_KEY: Final = "old-key"
# Plans may have most of a MiB each.
_BATCH: Final = 16


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A node that is to be signed.

    Attributes:
        node: with the payload alone.
        family: its meaning.
        problem: unsigned, wrong, replayed, or old-key.
    """

    node: Versioned
    family: str
    problem: str


async def find_unsigned(store: BulkStore, signatures: ZnodeSignatures) -> list[Unsigned]:
    """All nodes that are to be signed, by their paths.

    ``store`` is one that does not verify.

    Raises:
        StoreError: they could not be read.
    """
    found: list[Unsigned] = []
    paths = [path async for path in _paths(store)]
    for at in range(0, len(paths), _BATCH):
        for node in await store.get_many(paths[at : at + _BATCH]):
            family = None if node is None else family_of(node.path)
            if node is None or family is None:
                continue
            payload, failure = signatures.examine(node, family)
            if failure is not None:
                found.append(Unsigned(payload, family.name, failure.value))
            elif not signatures.is_by_first_key(node):
                found.append(Unsigned(payload, family.name, _OLD_KEY))
    return found


async def find_signed_by_removed(
    store: BulkStore, before: ZnodeSignatures, after: ZnodeSignatures
) -> list[Unsigned]:
    """Nodes that are valid by the keys of ``before``, and not by those of ``after``.

    Raises:
        StoreError: they could not be read.
    """
    invalid = {
        found.node.path for found in await find_unsigned(store, before) if found.problem != _OLD_KEY
    }
    return [
        found
        for found in await find_unsigned(store, after)
        if found.problem != _OLD_KEY and found.node.path not in invalid
    ]


async def sign_again(store: BulkStore, signatures: ZnodeSignatures, found: Unsigned) -> bool:
    """Sign a node, unless it has changed or holds no JSON object; returns whether it was signed.

    Raises:
        StoreError: it may not have been written.
    """
    node = found.node
    sealed = signatures.seal(node.path, node.data, 0)
    if sealed == node.data:
        return False
    try:
        await store.set(node.path, sealed, node.stat.version)
    except (BadVersion, NoNode):
        return False
    return True


async def _paths(store: BulkStore) -> AsyncIterator[str]:
    for path in PERSISTENT_NODES:
        yield path
    parents = list(PERSISTENT_PARENTS)
    for above in PERSISTENT_GRANDPARENTS:
        parents += [f"{above}/{name}" for name in await store.children(above)]
    for parent in parents:
        for name in await store.children(parent):
            yield f"{parent}/{name}"
