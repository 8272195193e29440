"""Builds what serves on without ZooKeeper, where ownershipAuthority is failsafe."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.coordination.failsafe.absences import Absences
from broker_ctl.coordination.failsafe.membership import Membership
from broker_ctl.coordination.failsafe.promises import Promises
from broker_ctl.coordination.failsafe.rounds import PromiseRounds
from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.membership.peers import Peers
from broker_ctl.core.failsafe.promises import Situation
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.daemon.wiring.coordination import Coordination
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.settings.subjects.session import OwnershipAuthority

# An acquisition is under way, or its outcome is unknown.
_IN_DOUBT: Final = frozenset({BundleState.ASSIGNING, BundleState.RECLAIMING})


@dataclass(frozen=True, slots=True)
class Member:
    """This broker as one of those that promise, and that are known to each other."""

    membership: Membership
    promises: Promises


def build_member(
    base: Foundation, locks: Locks, held: Callable[[], Iterable[OwnedBundle]]
) -> Member | None:
    """None unless ownershipAuthority is failsafe; ``held`` are the bundles of this broker now."""
    if base.settings.session.ownership_authority is not OwnershipAuthority.FAILSAFE:
        return None

    def situation() -> Situation:
        is_acquiring = locks.has_unconfirmed or any(one.state in _IN_DOUBT for one in held())
        return Situation(membership.members, base.authority.has_store, is_acquiring)

    promises = Promises(base.clock, situation)
    membership = Membership(base.control, base.urls.broker_id, promises, rng=base.rng)
    return Member(membership, promises)


class Failsafe:
    """The tasks of it."""

    def __init__(
        self, base: Foundation, coordination: Coordination, membership: Membership, peers: Peers
    ) -> None:
        self._membership = membership
        self.rounds = PromiseRounds(
            broker_id=base.urls.broker_id,
            authority=base.authority,
            members=lambda: membership.members,
            peers=peers,
            clock=base.clock,
        )
        self._absences = Absences(
            base.metadata,
            membership,
            registered=lambda: coordination.registry.peers,
            leads=lambda: coordination.election.leadership is not None,
            clock=base.clock,
            limit_s=base.settings.session.failsafe_member_timeout_s,
        )

    async def start(self) -> None:
        """Join the members, and look after them."""
        await self._membership.start()
        self.rounds.start()
        self._absences.start()

    async def close(self) -> None:
        """Stop; this broker stays a member."""
        await self._absences.close()
        await self.rounds.close()
        await self._membership.close()
