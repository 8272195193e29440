"""Which nodes carry a signature, by their path.

Those by which brokers speak to each other, and that only broker-ctl writes; and requests to delete
a topic, for which an operator asks a broker. Their payloads are JSON objects, of which every reader
ignores unknown fields.
"""

from dataclasses import dataclass
from typing import Final

from broker_ctl.store import partition_paths, paths
from broker_ctl.store.path_rules import parent_of


@dataclass(frozen=True, slots=True)
class Family:
    """Nodes of one meaning.

    Attributes:
        name: label of its metrics.
        is_ephemeral: the signature holds for one session only, that of the node's owner.
        is_hidden: a refused node is treated as absent. All others are treated as corrupt, which
            their readers skip and count; this one has an effect even if it does not decode.
    """

    name: str
    is_ephemeral: bool = False
    is_hidden: bool = False


_ELECTION: Final = Family("election", is_ephemeral=True)
_PLAN: Final = Family("plan")

_NODES: Final = {
    paths.LOADBALANCE_ELECTION.node_path: _ELECTION,
    paths.CONTROLLER_ELECTION.node_path: _ELECTION,
    paths.ATTACH_ELECTION.node_path: _ELECTION,
    paths.PAUSE: Family("pause", is_hidden=True),
    paths.ROLLOUT: Family("rollout"),
}
_CHILDREN: Final = {
    paths.REGISTRATIONS: Family("registration", is_ephemeral=True),
    partition_paths.BROKER_IDS: Family("broker", is_ephemeral=True),
    partition_paths.FAILED: Family("failed-replicas", is_ephemeral=True),
    # Its readers ask whether it exists. Kafka's tools write it too, without a payload.
    partition_paths.DELETIONS: Family("deletion", is_hidden=True),
    paths.DRAINS: Family("drain"),
    paths.MAINTENANCE: Family("maintenance"),
    paths.MOVES: Family("move"),
    paths.PLANS: _PLAN,
}
_GRANDCHILDREN: Final = {
    paths.PLANS: _PLAN,
    partition_paths.STATE: Family("instruction"),
}
FAMILIES: Final = sorted(
    {family.name for known in (_NODES, _CHILDREN, _GRANDCHILDREN) for family in known.values()}
)
PERSISTENT_NODES: Final = [path for path, of in _NODES.items() if not of.is_ephemeral]
PERSISTENT_PARENTS: Final = [path for path, of in _CHILDREN.items() if not of.is_ephemeral]
PERSISTENT_GRANDPARENTS: Final = [
    path for path, of in _GRANDCHILDREN.items() if not of.is_ephemeral
]
# One call decides about the paths of most requests, none of which begins like this.
_BEGINNINGS: Final = (
    "/broker-ctl/",
    "/brokers/",
    f"{partition_paths.DELETIONS}/",
    paths.LOADBALANCE_ELECTION.node_path,
    paths.CONTROLLER_ELECTION.node_path,
)


def family_of(path: str) -> Family | None:
    """The family of a node, None for a node without a signature."""
    if not path.startswith(_BEGINNINGS):
        return None
    if (family := _NODES.get(path)) is not None:
        return family
    parent = parent_of(path)
    return _CHILDREN.get(parent) or _GRANDCHILDREN.get(parent_of(parent))
