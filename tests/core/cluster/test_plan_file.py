"""The file of a placement plan: its fields, and the files that are refused."""

import json
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import OrderConflict

HOUR_MS = 3_600_000
BUNDLE = Bundle.parse("public/default/0x00000000_0x80000000")
FILE = PlanFile(
    cluster="east",
    made_ms=30 * HOUR_MS,
    from_ms=5 * HOUR_MS,
    to_ms=29 * HOUR_MS,
    moves=(PlannedMove(BUNDLE, "a:8080", "b:8080", 12.5),),
    before=(1.5,) * 24,
    after=(1.1,) * 24,
)


def test_a_plan_is_read_as_it_was_written() -> None:
    row = json.loads(json.dumps(FILE.to_row()))
    assert PlanFile.of_row(row) == FILE
    assert row["moves"] == [{"bundle": str(BUNDLE), "from": "a:8080", "to": "b:8080", "load": 12.5}]
    assert (row["format"], len(row["hash"])) == (1, 64)


def test_a_plan_that_was_changed_on_the_way_is_refused() -> None:
    row = FILE.to_row()
    row["moves"] = [row["moves"][0] | {"to": "c:8080"}]
    with pytest.raises(OrderConflict, match="hash"):
        PlanFile.of_row(row)
    # The order of the keys does not matter.
    assert PlanFile.of_row(dict(reversed(FILE.to_row().items()))) == FILE


def test_a_row_that_is_not_a_plan_or_of_another_format_is_refused() -> None:
    with pytest.raises(OrderConflict, match="format 2, this release reads 1"):
        PlanFile.of_row(FILE.to_row() | {"format": 2})
    broken: list[dict[str, object]] = [
        {"moves": 5},
        {"made_ms": "soon"},
        {"moves": [{"bundle": "x", "from": "a", "to": "b", "load": 1}]},
        {"moves": [{"bundle": str(BUNDLE)}]},
    ]
    for part in broken:
        with pytest.raises(OrderConflict, match="not a plan"):
            PlanFile.of_row(FILE.to_row() | part)
    with pytest.raises(OrderConflict):
        PlanFile.of_row({})


def test_a_plan_is_for_one_cluster_and_for_the_day_after_its_profile() -> None:
    FILE.check("east", 29 * HOUR_MS)
    FILE.check("east", 65 * HOUR_MS - 1)
    with pytest.raises(OrderConflict, match="this is west"):
        FILE.check("west", 30 * HOUR_MS)
    with pytest.raises(OrderConflict, match=r"ended 36\.0 hours ago"):
        FILE.check("east", 65 * HOUR_MS)
    with pytest.raises(OrderConflict, match=r"ended -1\.0 hours ago"):
        FILE.check("east", 28 * HOUR_MS)


def test_its_moves_are_proposals_for_a_reason_of_their_own() -> None:
    (proposal,) = FILE.proposals
    assert (proposal.bundle, proposal.source, proposal.destination) == (BUNDLE, "a:8080", "b:8080")
    assert proposal.reason is Reason.PROFILE
    assert replace(FILE, moves=()).proposals == ()
