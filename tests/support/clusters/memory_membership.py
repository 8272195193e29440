"""The members of a cluster as a test sets them; nobody has to be admitted first."""

from collections.abc import Collection

from broker_ctl.coordination.failsafe.membership import Membership
from broker_ctl.core.failsafe.members import ListVersion, MemberList


class MemoryMembership(Membership):
    """Shared by the brokers of a test.

    Attributes:
        added: the members, with their versions.
    """

    def __init__(self, broker_ids: Collection[str]) -> None:
        self.added = dict.fromkeys(broker_ids, 0)
        self._broker_id = ""

    @property
    def members(self) -> MemberList:
        return MemberList(ListVersion(7, 1), dict(self.added))

    @property
    def reads(self) -> dict[str, ListVersion]:
        return dict.fromkeys(list(self.added)[:1], ListVersion(7, 1))

    @property
    def is_admitted(self) -> bool:
        return True

    @property
    def promised_s(self) -> float:
        return 0.25

    def can_remove(self, broker_id: str) -> bool:
        return broker_id in self.added

    async def remove(self, broker_ids: Collection[str]) -> list[str]:
        found = [name for name in broker_ids if name in self.added]
        for name in found:
            del self.added[name]
        return found
