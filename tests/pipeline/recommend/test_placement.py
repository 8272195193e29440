"""The placement plan of a usual day: what moves, what stays, and when there is none."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.recommend.usual_day import DayOfBundle, UsualDay, placement_of

HOUR_MS = 3_600_000
DAY, NIGHT = range(8, 20), [*range(8), *range(20, 24)]


def bundle(number: int) -> str:
    return f"t/n/0x{number << 28:08x}_0x{(number + 1) << 28:08x}"


def busy(hours: Sequence[int]) -> list[float | None]:
    return [0.4 if hour in hours else 0.0 for hour in range(24)]


# Each broker has two that are busy at the same time: neither is even at any hour.
EAST = UsualDay(
    cluster="east",
    from_ms=0,
    to_ms=24 * HOUR_MS,
    sizes={"a": 1.0, "b": 1.0},
    bundles=[
        DayOfBundle(bundle(0), "a", busy(DAY)),
        DayOfBundle(bundle(1), "a", busy(DAY)),
        DayOfBundle(bundle(2), "b", busy(NIGHT)),
        DayOfBundle(bundle(3), "b", busy(NIGHT)),
    ],
)


def test_bundles_that_are_busy_at_the_same_time_are_parted() -> None:
    found = placement_of(EAST, 25 * HOUR_MS)
    assert {(str(move.bundle), move.source, move.destination) for move in found.file.moves} == {
        (bundle(1), "a", "b"),
        (bundle(3), "b", "a"),
    }
    assert [move.load for move in found.file.moves] == pytest.approx([0.2, 0.2])
    assert found.file.before == (2.0,) * 24
    assert found.file.after == (1.0,) * 24
    assert found.moved_ratio == pytest.approx(0.5)
    assert PlanFile.of_row(json.loads(json.dumps(found.file.to_row()))) == found.file
    found.file.check("east", 25 * HOUR_MS)
    row = found.to_row()
    assert (row["moves"], row["bundles"], row["unprofiled"]) == (2, 4, 0)
    assert (row["worst_hour_before"], row["worst_hour_after"]) == (2.0, 1.0)
    assert row["hash"] == found.file.hash


def test_a_bundle_of_which_hours_are_not_known_stays() -> None:
    # Made by a split at noon.
    new = DayOfBundle(bundle(1), "a", [None] * 12 + [0.4] * 8 + [0.0] * 4)
    late = replace(EAST, bundles=[EAST.bundles[0], new, *EAST.bundles[2:]])
    found = placement_of(late, 25 * HOUR_MS)
    assert found.unprofiled == 1
    assert bundle(1) not in {str(move.bundle) for move in found.file.moves}
    assert bundle(0) in {str(move.bundle) for move in found.file.moves}


def test_a_bundle_without_a_known_owner_is_not_moved() -> None:
    orphan, gone = DayOfBundle(bundle(4), None, busy(DAY)), DayOfBundle(bundle(5), "c", busy(NIGHT))
    found = placement_of(replace(EAST, bundles=[*EAST.bundles, orphan, gone]), 25 * HOUR_MS)
    assert found.bundles == 6
    assert {move.source for move in found.file.moves} <= {"a", "b"}
    assert {bundle(4), bundle(5)}.isdisjoint(str(move.bundle) for move in found.file.moves)


def test_a_larger_broker_gets_more() -> None:
    flat = [DayOfBundle(bundle(number), "a", [0.1] * 24) for number in range(8)]
    found = placement_of(replace(EAST, sizes={"a": 0.5, "b": 1.5}, bundles=flat), 25 * HOUR_MS)
    assert len(found.file.moves) == 6
    assert found.file.after == pytest.approx((1.0,) * 24)


def test_without_a_whole_day_or_a_second_broker_there_is_no_plan() -> None:
    morning = [each._replace(hours=[*each.hours[:10], *[None] * 14]) for each in EAST.bundles]
    with pytest.raises(
        PipelineError, match="east: its daily profile knows 10 of 24 hours"
    ) as caught:
        placement_of(replace(EAST, bundles=morning), 0)
    assert "let it run for a day" in str(caught.value)
    with pytest.raises(PipelineError, match=r"knows 0 of 24 hours \(UTC: none\)"):
        placement_of(replace(EAST, bundles=[]), 0)
    with pytest.raises(PipelineError, match="1 brokers take bundles, a plan needs at least 2"):
        placement_of(replace(EAST, sizes={"a": 1.0}), 0)
