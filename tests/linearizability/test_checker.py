"""Histories that could have happened one operation after the other, and such that could not."""

import math
from typing import Any

import pytest

from tests.linearizability.against_porcupine import judge, missing_tool
from tests.linearizability.checker import Model, Operation, check
from tests.linearizability.models import FencedHash, OwnedHash, PartitionLog, VersionedNode
from tests.linearizability.random_histories import MODELS, draw

HANG_S = 1_800
HISTORIES = 10_000
FEW = 400
DONE, REFUSED = True, False


def op(called: float, returned: float, kind: str, given: Any, answer: Any = None) -> Operation:
    return Operation(called, returned, (kind, given), answer)


POSSIBLE: list[tuple[Model, list[Operation]]] = [
    (VersionedNode(), []),
    # The one that began later may have been first.
    (VersionedNode(), [op(0, 5, "set", 1, DONE), op(1, 2, "set", 0, DONE)]),
    # A lost answer: the write was done, and later than its client waited.
    (VersionedNode(), [op(0, math.inf, "set", 0), op(3, 4, "set", 1, DONE)]),
    (VersionedNode(), [op(0, math.inf, "set", 0), op(3, 4, "set", 0, DONE)]),
    (PartitionLog(), [op(0, 3, "append", "a", 1), op(1, 2, "append", "b", 0)]),
    (PartitionLog(), [op(0, 1, "append", "a", 0), op(2, 3, "read", 0, [])]),
    (PartitionLog(), [op(0, math.inf, "append", "a"), op(1, 2, "read", 0, ["a"])]),
    (OwnedHash(), [op(0, 1, "own", 7), op(1, 2, "act", 7), op(2, 4, "end", 7), op(3, 5, "own", 9)]),
    (
        FencedHash(),
        [op(0, 9, "act", 7, DONE), op(1, 2, "act", 9, DONE), op(3, 4, "act", 8, REFUSED)],
    ),
]
IMPOSSIBLE: list[tuple[Model, list[Operation], Operation]] = [
    (VersionedNode(), two, two[1])
    for two in (
        [op(0, 1, "set", 0, DONE), op(2, 3, "set", 0, DONE)],
        [op(0, 1, "set", 0, DONE), op(2, 3, "set", 1, REFUSED)],
    )
] + [
    (model, operations, operations[-1])
    for model, operations in (
        # Order in time is order in the log.
        (PartitionLog(), [op(0, 1, "append", "a", 1), op(2, 3, "append", "b", 0)][::-1]),
        (PartitionLog(), [op(0, 1, "append", "a", 0), op(2, 3, "read", 0, ["b"])]),
        # It was read before it was appended.
        (PartitionLog(), [op(2, 3, "append", "a", 0), op(0, 1, "read", 0, ["a"])]),
        (OwnedHash(), [op(0, 1, "own", 7), op(2, 3, "own", 9)]),
        (OwnedHash(), [op(0, 1, "own", 7), op(1.5, 2, "end", 7), op(3, 4, "act", 7)]),
        (FencedHash(), [op(0, 1, "act", 9, DONE), op(2, 3, "act", 7, DONE)]),
        (FencedHash(), [op(0, 1, "act", 7, DONE), op(2, 3, "act", 7, REFUSED)]),
    )
]


@pytest.mark.parametrize(("model", "operations"), POSSIBLE)
def test_a_history_with_an_order_is_linearizable(model: Model, operations: list[Operation]) -> None:
    assert check(model, operations).is_linearizable
    assert check(model, operations[::-1]).is_linearizable


@pytest.mark.parametrize(("model", "operations", "stuck"), IMPOSSIBLE)
def test_a_history_without_an_order_names_the_answer_that_fits_nowhere(
    model: Model, operations: list[Operation], stuck: Operation
) -> None:
    assert check(model, operations).stuck == stuck


def test_random_histories_are_of_both_kinds_for_each_object() -> None:
    verdicts = {
        (one.model, check(MODELS[one.model], one.operations).is_linearizable)
        for one in map(draw, range(FEW))
    }
    assert verdicts == {(name, is_possible) for name in MODELS for is_possible in (True, False)}


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
@pytest.mark.skipif(bool(missing_tool()), reason=missing_tool() or "it is there")
def test_porcupine_judges_each_history_alike() -> None:
    histories = list(map(draw, range(HISTORIES)))
    own = [check(MODELS[one.model], one.operations).is_linearizable for one in histories]
    assert judge(histories) == own
