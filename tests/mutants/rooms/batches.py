"""Breaks of the classes of requests: their order on a path, their lanes, and their answers."""

from typing import Final

from tests.mutants.mutant import Mutant, contract, plant, unit

_ORDER: Final = "store/batching/order.py"
_LANE: Final = "store/batching/lane.py"
_LANES: Final = "store/batching/lanes.py"
_READS: Final = "store/batching/reads.py"
_WRITES: Final = "store/batching/writes.py"
_SETTLING: Final = "store/batching/settling.py"
_STORE: Final = "store/batching/store.py"
_WAITING: Final = "store/batching/backpressure.py"

_BATCHED: Final = unit("store/batching")
_MULTI: Final = contract("contract/test_multi.py", "contract/test_sessions.py")

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
    plant(
        "given-up-requests-keep-their-paths",
        "I10",
        _STORE,
        "                found += self._order.leave(ready.claims)\n",
        "",
        _BATCHED,
    ),
    plant(
        "given-up-writes-keep-their-paths",
        "I10",
        _WRITES,
        "        self._shared.waiting.remove((entry,))\n        self._on_leave(entry)\n",
        "        self._shared.waiting.remove((entry,))\n",
        _BATCHED,
    ),
    plant(
        "one-class-for-all-requests",
        "I10 I12",
        _STORE,
        "        reads = self._lanes[REQUEST_CLASS.get()].reads\n        entry = ReadEntry(",
        "        reads = self._lanes[RequestClass.INTERACTIVE].reads\n        entry = ReadEntry(",
        _BATCHED,
    ),
    plant(
        "writes-of-one-class",
        "I10 I12",
        _STORE,
        "writes = self._lanes[REQUEST_CLASS.get()].writes",
        "writes = self._lanes[RequestClass.BULK].writes",
        _BATCHED,
    ),
    plant(
        "bulk-requests-without-a-window-of-their-own",
        "I10",
        _LANES,
        "bound = AdaptiveWindow if is_bulk and rules.follows_round_trip else FixedWindow",
        "bound = FixedWindow",
        _BATCHED,
    ),
    plant(
        "bulk-reads-sent-at-once",
        "I10",
        _READS,
        "is_eager=shared.request_class is not RequestClass.BULK",
        "is_eager=True",
        _BATCHED,
    ),
    plant(
        "settled-without-regard-to-class",
        "I10 I12",
        _SETTLING,
        "        for place, queue in enumerate(self._queues):\n",
        "        for place, queue in reversed([*enumerate(self._queues)]):\n",
        _BATCHED,
    ),
    plant(
        "settled-all-in-one-turn",
        "I10 I12",
        _SETTLING,
        "while queue and settled < most:",
        "while queue:",
        _BATCHED,
    ),
    plant(
        "answers-of-reads-in-any-order",
        "I4 I6",
        _READS,
        "        while self._sent and (found := self._early.pop(id(self._sent[0]), None)) "
        "is not None:\n            entries = self._sent.popleft()\n",
        "        while (found := self._early.pop(id(batch), None)) is not None:\n"
        "            self._sent.remove(batch)\n"
        "            entries = batch\n",
        _BATCHED,
    ),
    plant(
        "batched-writes-pass-to-the-next-session",
        "I4 I8",
        _STORE,
        "            self._waiting.fail_writes()\n",
        "            del self\n",
        _BATCHED,
        _MULTI,
    ),
    plant(
        "parts-of-a-batch-pass-to-the-next-session",
        "I4 I8",
        _WRITES,
        "if terms.session_id not in {0, self._shared.store.session_id}:",
        "if terms.session_id < 0:",
        _BATCHED,
        _MULTI,
    ),
    plant(
        "writes-that-were-given-up-without-an-answer",
        "I4 I10",
        _WRITES,
        '            self._fail(batch, Ambiguous("the write was given up", terms.session_id))\n',
        "",
        _BATCHED,
    ),
    plant(
        "the-neighbours-of-a-refused-write-fail-too",
        "I4",
        _WRITES,
        "        rest = (batch[:place], behind[:middle], behind[middle:])\n",
        "        self._fail([*batch[:place], *behind], failed.cause)\n"
        "        rest: tuple[Sequence[WriteEntry], ...] = ()\n",
        _BATCHED,
        _MULTI,
    ),
    plant(
        "late-requests-wait-on",
        "I10",
        _WAITING,
        "if now_s - entry.made_s < self._max_wait_s:",
        "if now_s - entry.made_s < 1000 * self._max_wait_s:",
        _BATCHED,
    ),
)
