"""The list of the brokers whose promises let a broker serve on without ZooKeeper (docs: failsafe).

The list is one node. A broker that is not on it acquires nothing; one that is on it must have been
read by all others before it does (docs: model-failsafe).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListVersion:
    """One version of the list.

    Attributes:
        czxid: of the node: a list that was deleted and created again begins with version 0, too.
        version: the node's data version.
    """

    czxid: int
    version: int

    def covers(self, entry: "ListVersion") -> bool:
        """Whether a broker that has read this version knows of an entry that was added then."""
        return self.czxid == entry.czxid and self.version >= entry.version


@dataclass(frozen=True, slots=True)
class MemberList:
    """The list as it was read.

    Attributes:
        added: the version of the list in which each member came on it, by broker id. A broker
            that was removed and added again is a new member.
    """

    version: ListVersion
    added: Mapping[str, int]

    def entry_of(self, broker_id: str) -> ListVersion | None:
        """Since which version a broker is on the list; None: it is not."""
        added = self.added.get(broker_id)
        return None if added is None else ListVersion(self.version.czxid, added)

    def others(self, broker_id: str) -> list[str]:
        """All members but one, sorted."""
        return sorted(self.added.keys() - {broker_id})

    def with_member(self, broker_id: str) -> dict[str, int]:
        """The entries of the next version, with one more."""
        return {**self.added, broker_id: self.version.version + 1}

    def without(self, broker_ids: Collection[str]) -> dict[str, int]:
        """The entries of the next version, with fewer."""
        return {name: added for name, added in self.added.items() if name not in broker_ids}

    def unread_by(self, entry: ListVersion, reads: Mapping[str, ListVersion]) -> list[str]:
        """The members that may not know of an entry, by the versions that each has read."""
        return [name for name in sorted(self.added) if not _has_read(reads.get(name), entry)]


def _has_read(read: ListVersion | None, entry: ListVersion) -> bool:
    return read is not None and read.covers(entry)


def standing(
    members: MemberList | None, reads: Mapping[str, ListVersion]
) -> list[dict[str, str | int | bool]]:
    """Each member as a plain row: since which version, and whether it has read the newest one."""
    if members is None:
        return []
    unread = members.unread_by(members.version, reads)
    return [
        {"broker": name, "added": added, "has_read": name not in unread}
        for name, added in sorted(members.added.items())
    ]
