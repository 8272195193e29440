"""Histories of a few clients on one object: some could have happened, and some could not.

Each is made from an order of operations, answered by the model, and then stretched so that they
overlap. In every other history one answer or one time is changed, which may make it impossible.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.linearizability.checker import Model, Operation
from tests.linearizability.models import FencedHash, OwnedHash, PartitionLog, VersionedNode

MODELS: Final[Mapping[str, Model]] = {
    "node": VersionedNode(),
    "log": PartitionLog(),
    "owned": OwnedHash(),
    "fenced": FencedHash(),
}
_MOST: Final = 14
# Operations overlap with some that are up to this far away.
_STRETCH_S: Final = 2.5


@dataclass(frozen=True, slots=True)
class History:
    """``model`` is a name in `MODELS`."""

    model: str
    operations: tuple[Operation, ...]

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values; times in thousandths."""
        return {
            "model": self.model,
            "operations": [
                {
                    "called": round(one.called_s * 1000),
                    "returned": round(one.returned_s * 1000) if one.is_answered else -1,
                    "kind": one.wish[0],
                    "given": one.wish[1],
                    "answer": one.answer,
                }
                for one in self.operations
            ],
        }


def draw(seed: int) -> History:
    """The same for the same seed."""
    rng = random.Random(seed)
    name = rng.choice(sorted(MODELS))
    operations = [_stretched(rng, place, one) for place, one in enumerate(_sequence(rng, name))]
    if rng.random() < 0.5:
        at = rng.randrange(len(operations))
        operations[at] = _changed(rng, operations[at])
    rng.shuffle(operations)
    return History(name, tuple(operations))


def _sequence(rng: random.Random, name: str) -> list[Operation]:
    """What was asked for and answered, one after the other."""
    wishes = {"node": _node, "log": _log, "owned": _owned, "fenced": _fenced}[name]
    return wishes(rng, rng.randrange(2, _MOST))


def _node(rng: random.Random, count: int) -> list[Operation]:
    version, found = 0, []
    for _ in range(count):
        asked = max(0, version - rng.choice([0, 0, 1]))
        found.append(Operation(0, 0, ("set", asked), asked == version))
        version += asked == version
    return found


def _log(rng: random.Random, count: int) -> list[Operation]:
    log: list[int] = []
    found = []
    for number in range(count):
        if rng.random() < 0.6:
            found.append(Operation(0, 0, ("append", number), len(log)))
            log.append(number)
        elif rng.random() < 0.2:
            found.append(Operation(0, 0, ("all", 0), list(log)))
        else:
            begin = rng.randint(0, len(log))
            found.append(
                Operation(0, 0, ("read", begin), log[begin : rng.randint(begin, len(log))])
            )
    return found


def _owned(rng: random.Random, count: int) -> list[Operation]:
    found: list[Operation] = []
    token = owner = 0
    for _ in range(count):
        if not owner:
            token += 1
            owner = token
            found.append(Operation(0, 0, ("own", owner), answer=True))
        elif rng.random() < 0.3:
            found.append(Operation(0, 0, ("end", owner), answer=True))
            owner = 0
        else:
            found.append(Operation(0, 0, ("act", owner), answer=True))
    return found


def _fenced(rng: random.Random, count: int) -> list[Operation]:
    highest, found = 1, []
    for _ in range(count):
        token = max(1, highest + rng.choice([-1, 0, 0, 1]))
        found.append(Operation(0, 0, ("act", token), token >= highest))
        highest = max(highest, token)
    return found


def _stretched(rng: random.Random, place: int, one: Operation) -> Operation:
    called_s = round(place - rng.random() * _STRETCH_S, 3)
    returned_s = round(place + rng.random() * _STRETCH_S, 3)
    # Of the two that are not always allowed a missing answer says nothing.
    if one.wish[0] in {"set", "append"} and rng.random() < 0.15:
        return replace(one, called_s=called_s, returned_s=math.inf, answer=None)
    return replace(one, called_s=called_s, returned_s=returned_s)


def _changed(rng: random.Random, one: Operation) -> Operation:
    if not one.is_answered or rng.random() < 0.3:
        later_s = round(rng.choice([-2, 2, 4]) * rng.random(), 3)
        return replace(one, called_s=one.called_s + later_s, returned_s=one.returned_s + later_s)
    kind, given = one.wish
    if kind in {"own", "end"} or (kind == "act" and rng.random() < 0.5):
        return replace(one, wish=(kind, max(1, given + rng.choice([-1, 1]))))
    if isinstance(one.answer, bool):
        return replace(one, answer=not one.answer)
    if isinstance(one.answer, list):
        return replace(one, answer=[*one.answer, rng.randrange(_MOST)])
    return replace(one, answer=max(0, one.answer + rng.choice([-1, 1])))
