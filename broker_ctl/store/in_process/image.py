"""The kept state as bytes: this process's own lasting nodes, with their versions.

Versions and zxids are kept, since an epoch is the version of a node and must never restart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.codec import decode_object, encode
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store import paths
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.path_rules import is_at_or_below, is_usable_name

_VERSION: Final = 1
_FIELDS: Final = len(Stat._fields)


def is_lasting(node: Versioned) -> bool:
    """Whether a node outlives the process: its own, but for heartbeats and ephemeral nodes."""
    return (
        is_at_or_below(paths.OWN_NODES, node.path)
        and not is_at_or_below(paths.LEASES, node.path)
        and not node.stat.is_ephemeral
    )


@dataclass(frozen=True, slots=True)
class StateImage:
    """What is kept.

    Attributes:
        zxid: of the newest transaction; the next one must be newer.
    """

    nodes: tuple[Versioned, ...]
    zxid: int

    @classmethod
    def of(cls, nodes: Iterable[Versioned], zxid: int) -> Self:
        """The lasting ones of these nodes."""
        return cls(tuple(node for node in nodes if is_lasting(node)), zxid)

    def encode(self) -> bytes:
        """The bytes that a keeper gets."""
        rows = [
            {"path": node.path, "data": node.data.decode(), "stat": list(node.stat)}
            for node in self.nodes
        ]
        return encode({"version": _VERSION, "zxid": self.zxid, "nodes": rows})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read kept bytes; none at all are an empty state.

        Raises:
            CorruptRecord: they are not a state. NewerVersion: a later release wrote them.
        """
        if not data:
            return cls((), 0)
        values = decode_object(data)
        if values.get("version") != _VERSION:
            raise NewerVersion(f"the kept state has version {values.get('version')}: upgrade")
        try:
            nodes = tuple(_nodes(values["nodes"]))
            zxid = int(values["zxid"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"the kept state cannot be read: {error!r}") from error
        known = {node.path for node in nodes}
        for node in nodes:
            parent = node.path.rpartition("/")[0]
            if not is_lasting(node) or (parent and parent not in known):
                raise CorruptRecord(f"the kept state has {node.path}, which is not part of it")
        # Children that do not last were counted, and are not there any more.
        counts = Counter(node.path.rpartition("/")[0] for node in nodes)
        return cls(tuple(_with_children(node, counts[node.path]) for node in nodes), zxid)


def _with_children(node: Versioned, count: int) -> Versioned:
    return node._replace(stat=node.stat._replace(children_count=count))


def _nodes(rows: Iterable[dict[str, Any]]) -> Iterator[Versioned]:
    for row in rows:
        path, numbers = str(row["path"]), [int(number) for number in row["stat"]]
        if len(numbers) != _FIELDS or not all(map(is_usable_name, path[1:].split("/"))):
            raise ValueError(f"{path!r} is not a node")
        yield Versioned(path, str(row["data"]).encode(), Stat(*numbers))
