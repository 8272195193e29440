"""Committed transactions as steps of the model: which one each is, and whether it checks as much.

The guards of a step are read from the specification. A transaction that the model has no step for,
or that lacks a guard of its step, is an error even where no race shows it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Create, Delete, Operation, SetData
from tests.model.checker import SPECS

_STEP = re.compile(r"inline step_(\w+)\(\)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
_GUARD = re.compile(r":: (.*?) ->", re.DOTALL)
_WORD = re.compile(r"\b[A-Z]{3,}\b")
# Bundles, not guards.
_BUNDLES: Final = {"WHOLE", "LEFT", "RIGHT"}
_ADMIN: Final = 0


def guards_of_the_model() -> Mapping[str, frozenset[str]]:
    """By step, the names of its guards, as in the specification."""
    text = (SPECS / "ownership.pml").read_text()
    steps = {}
    for name, body in _STEP.findall(text):
        guard = _GUARD.search(body)
        words = _WORD.findall(guard[1]) if guard else []
        steps[name] = frozenset(words) - _BUNDLES
    return steps


@dataclass(frozen=True, slots=True)
class Transaction:
    """What was committed, and by which session; 0: an administrator's tool."""

    operations: Sequence[Operation]
    session_id: int

    def versions(self, is_path: Callable[[str], bool]) -> list[int]:
        """The versions that its operations other than creations ask for, of some paths."""
        asked = [op for op in self.operations if not isinstance(op, Create) and is_path(op.path)]
        return [op.version for op in asked if op.version >= 0]

    def writes(self, kind: type[Operation], is_path: Callable[[str], bool]) -> list[str]:
        """The paths of its operations of one kind."""
        return [op.path for op in self.operations if isinstance(op, kind) and is_path(op.path)]


def _is_owner(path: str) -> bool:
    return paths.owned_bundle(path) is not None


def _is_ring(path: str) -> bool:
    return paths.local_policies_namespace(path) is not None


def _is_move(path: str) -> bool:
    return paths.name_below(paths.MOVES, path) is not None


def _is_epoch(path: str) -> bool:
    return path == paths.LOADBALANCE_ELECTION.epoch_path


def _is_generation(path: str) -> bool:
    return path.startswith(f"{paths.RINGS}/")


def _is_seat(path: str) -> bool:
    return path == paths.LOADBALANCE_ELECTION.node_path


class Trace:
    """Follows the owner nodes, and judges each transaction."""

    def __init__(self) -> None:
        self._guards = guards_of_the_model()
        self._owners: dict[str, int] = {}
        self.steps: dict[str, int] = dict.fromkeys(self._guards, 0)

    def expire(self, session_id: int) -> None:
        """A session has ended, and its nodes with it."""
        self.steps["expire"] += 1
        self._owners = {path: sid for path, sid in self._owners.items() if sid != session_id}

    def judge(self, transaction: Transaction) -> str | None:
        """What the model does not allow; None if it does, or if it has no word for any of it."""
        step = _step(transaction)
        wrong = None
        if step is not None and transaction.session_id != _ADMIN:
            self.steps[step] += 1
            missing = [
                guard for guard in sorted(self._guards[step]) if not self._has(transaction, guard)
            ]
            if missing:
                wrong = f"{step} without {', '.join(missing)}: {transaction.operations}"
        for operation in transaction.operations:
            if isinstance(operation, Delete) and _is_owner(operation.path):
                self._owners.pop(operation.path, None)
        for path in transaction.writes(Create, _is_owner):
            self._owners[path] = transaction.session_id
        return wrong

    def _has(self, transaction: Transaction, guard: str) -> bool:
        created = transaction.writes(Create, _is_owner)
        deleted = transaction.writes(Delete, _is_owner)
        owners = self._owners
        is_checked: Mapping[str, bool] = {
            "GENERATION": bool(transaction.versions(_is_generation)),
            "RING": bool(transaction.versions(_is_ring)),
            "EPOCH": bool(transaction.versions(_is_epoch)),
            "RECORD": bool(transaction.versions(_is_move)),
            "FREE": all(path not in owners or path in deleted for path in created),
            "MINE": all(owners.get(path) == transaction.session_id for path in deleted),
            "UNOWNED": _deletes_parents(transaction),
        }
        return is_checked[guard]


def _deletes_parents(transaction: Transaction) -> bool:
    """Whether the parents of owner nodes go with the rings: refused while an owner node stands."""
    gone = transaction.writes(Delete, _is_ring)
    spaces = [space for path in gone if (space := paths.local_policies_namespace(path)) is not None]
    return {paths.ownership_of(space) for space in spaces} <= {
        *transaction.writes(Delete, lambda _: True)
    }


def _step(transaction: Transaction) -> str | None:
    """The step of the model, by what is written."""
    created = transaction.writes(Create, _is_owner)
    deleted = transaction.writes(Delete, _is_owner)
    is_commanded = any(isinstance(op, Check) and _is_move(op.path) for op in transaction.operations)
    known: tuple[tuple[bool, str], ...] = (
        (bool(transaction.writes(Delete, _is_ring)), "delete_namespace"),
        (bool(transaction.writes(Create, _is_ring)), "create_namespace"),
        (len(created) > 1 and bool(transaction.writes(SetData, _is_ring)), "split"),
        (len(deleted) > 1 and bool(transaction.writes(SetData, _is_ring)), "merge"),
        (bool(created), "receive" if is_commanded else "acquire"),
        (bool(deleted), "release" if is_commanded else "give_up"),
        (bool(transaction.writes(Create, _is_move)), "begin_move"),
        (bool(transaction.writes(SetData, _is_move)), "write_move"),
        (bool(transaction.writes(Create, _is_seat)), "elect"),
    )
    return next((name for is_it, name in known if is_it), None)
