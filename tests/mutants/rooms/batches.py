"""Breaks of the classes of requests: their order on a path, their lanes, and their answers."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_ORDER: Final = "store/batching/entries.py"

_BATCHED: Final = unit("store/batching")

BATCHES: Final[tuple[Mutant, ...]] = (
    plant(
        "a-write-granted-while-reads-hold-its-path",
        "I4",
        _ORDER,
        "        if path in self._lines:\n            return False\n",
        "        if self._lines.get(path) == _ALONE:\n            return False\n",
        _BATCHED,
    ),
    plant(
        "reads-overtake-writes-that-wait",
        "I4 I6",
        _ORDER,
        "        if isinstance(holders, _Line) or holders == _ALONE:\n            return False\n",
        "        if holders == _ALONE:\n            return False\n"
        "        if isinstance(holders, _Line):\n"
        "            holders.holders += 1\n            return True\n",
        _BATCHED,
    ),
    plant(
        "a-path-is-free-with-its-first-reader",
        "I4",
        _ORDER,
        "        if holders == 1:\n            del self._lines[path]\n",
        "        if holders:\n            del self._lines[path]\n",
        _BATCHED,
    ),
    plant(
        "turns-granted-beside-a-writer",
        "I4",
        _ORDER,
        "if line.holders and not (is_shared and line.holders > 0):",
        "if line.holders and not is_shared:",
        _BATCHED,
    ),
    plant(
        "a-turn-on-one-path-is-enough",
        "I4",
        _ORDER,
        "            if not claimant.turns:\n                ready.append(claimant)\n",
        "            ready.append(claimant)\n",
        _BATCHED,
    ),
)
