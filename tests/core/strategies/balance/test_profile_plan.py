"""A placement by numbers becomes a plan file with names."""

import numpy as np
import pytest

from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.strategies.balance.profile import (
    HOURS,
    NOBODY,
    Origin,
    plan_file,
    profile_placement,
)


def test_a_placement_becomes_moves_from_broker_to_broker() -> None:
    """Three of four bundles are on one broker; a bundle without an owner is not moved."""
    bundles = Ring.even(Namespace("public", "default"), 4).bundles
    load = np.outer([4.0, 3.0, 1.0, 0.5], np.ones(HOURS))
    owner = np.array([0, 0, 0, NOBODY], np.int32)
    placed = profile_placement(load, owner, np.ones(2))
    assert placed.owner.tolist() == [0, 1, 1, 0]
    file = plan_file(placed, Origin("c", 3, 1, 2), bundles, ["a", "b"], load=load, owner=owner)
    assert file.moves == (
        PlannedMove(bundles[1], "a", "b", 3.0),
        PlannedMove(bundles[2], "a", "b", 1.0),
    )
    assert (file.cluster, file.made_ms, file.from_ms, file.to_ms) == ("c", 3, 1, 2)
    assert file.before == pytest.approx([8 / 4.25] * HOURS)
    assert file.after == pytest.approx([4.5 / 4.25] * HOURS)
    assert PlanFile.of_row(file.to_row()) == file
