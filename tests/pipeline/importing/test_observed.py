"""What was recorded of a moment becomes rows that say no more than that."""

from typing import Any

import pytest

from broker_ctl.core.history.row_kinds import (
    BROKER_LOADS,
    BUNDLE_BOUNDARIES,
    BUNDLE_LOADS,
    CAPACITIES,
)
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.pipeline.importing.job import ImportRules, hours_of
from broker_ctl.pipeline.importing.observed import Observed, Written, rows_of

LEFT, RIGHT = Ring.even(Namespace("t", "n"), 2).bundles
HOUR_MS = 3_600_000


def observed(*served: tuple[Bundle, str, float]) -> Observed:
    found = Observed(1000)
    for bundle, broker, rate in served:
        found.add(bundle, broker, "bytes_in", rate)
        found.add(bundle, broker, "topics", 2.0)
    return found


def rows(moment: Observed, written: Written) -> dict[str, list[Any]]:
    return {kind.name: list(some) for kind, some in rows_of(moment, written, 0.4)}


def test_a_bundle_uses_its_part_of_its_broker() -> None:
    moment = observed((LEFT, "a:8080", 30.0), (RIGHT, "b:8080", 10.0))
    moment.usages = {"a:8080": {"cpu": 60.0, "memory": 99.0, "bandwidth_in": 70.0}}
    found = rows(moment, Written())
    busy, quiet = found[BROKER_LOADS.name]
    # Memory does not say how full a broker is; of the other one nothing was recorded.
    assert (busy.usage_ratio, busy.memory_percent, busy.bytes_in) == (0.7, 99.0, 30.0)
    assert quiet.usage_ratio == pytest.approx(0.4 * 10 / 20)
    left, right = found[BUNDLE_LOADS.name]
    assert (left.owner, left.usage_ratio, left.topics, left.cache_bytes) == ("a:8080", 0.7, 2, None)
    assert right.usage_ratio == pytest.approx(0.2)


def test_boundaries_and_capacities_are_written_when_they_change() -> None:
    written = Written()
    first = rows(observed((LEFT, "a", 1.0), (RIGHT, "a", 1.0)), written)
    (ring,) = first[BUNDLE_BOUNDARIES.name]
    assert ring.boundaries == (0, RIGHT.range.low, RIGHT.range.high)
    assert [row.broker for row in first[CAPACITIES.name]] == ["a"]
    # Of a ring with a gap nothing is said.
    second = rows(observed((RIGHT, "b", 1.0)), written)
    assert second[BUNDLE_BOUNDARIES.name] == []
    assert [row.broker for row in second[CAPACITIES.name]] == ["b"]


def test_a_bundle_that_has_just_moved_counts_once() -> None:
    found = rows(observed((LEFT, "a", 5.0), (LEFT, "b", 9.0), (RIGHT, "a", 0.0)), Written())
    assert [row.owner for row in found[BUNDLE_LOADS.name]] == ["b", "a"]
    assert [row.bytes_in for row in found[BROKER_LOADS.name]] == [0.0, 9.0]


def test_whole_hours_are_imported() -> None:
    rules = ImportRules(HOUR_MS // 2, 4 * HOUR_MS - 1, 60_000, "east", 0.5, 4)
    assert [*hours_of(rules)] == [HOUR_MS, 2 * HOUR_MS]
