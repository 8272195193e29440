"""A placement by the daily profile as a file for the leader."""

from collections.abc import Sequence
from typing import NamedTuple

from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.strategies.balance.problem import Floats, Indices
from broker_ctl.core.strategies.balance.profile import NOBODY, ProfilePlacement


class Origin(NamedTuple):
    """Where a profile comes from; see `PlanFile`."""

    cluster: str
    made_ms: int
    from_ms: int
    to_ms: int


def plan_file(
    placement: ProfilePlacement,
    origin: Origin,
    bundles: Sequence[Bundle],
    brokers: Sequence[str],
    *,
    load: Floats,
    owner: Indices,
) -> PlanFile:
    """The moves by name; the leader places bundles without an owner at once.

    Args:
        placement: of `profile_placement`.
        origin: of the profile.
        bundles: in the order of the arrays.
        brokers: likewise.
        load: as `profile_placement` was given it.
        owner: likewise.
    """
    moves = tuple(
        PlannedMove(
            bundles[place],
            brokers[owner[place]],
            brokers[placement.owner[place]],
            float(load[place].mean()),
        )
        for place in placement.moves
        if owner[place] != NOBODY
    )
    before, after = placement.before.tolist(), placement.after.tolist()
    return PlanFile(*origin, moves, tuple(before), tuple(after))
