"""Breaks of the part that a daemon takes in a migration of the brokers' metadata."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_MIGRATION: Final = "coordination/membership/metadata_migration.py"
_GATE: Final = "store/instrumented.py"
_WATCHER: Final = "coordination/session.py"
_RECORD: Final = "store/records/broker_ctl.py"
_PROBE: Final = "store/zookeeper/server_status.py"

_STOOD_BACK: Final = unit("store/test_write_gate.py", "daemon/wiring/test_metadata_migration.py")
_PROBED: Final = unit("store/zookeeper/test_probe.py")

MIGRATION: Final[tuple[Mutant, ...]] = (
    plant(
        "participants-answer-before-their-lease-is-over",
        "I1a I5",
        _MIGRATION,
        "            await self._watcher.wait_past(self._granted_until_s)\n",
        "            await asyncio.sleep(0)\n",
        _STOOD_BACK,
    ),
    plant(
        "participants-answer-with-writes-under-way",
        "I4 I5",
        _MIGRATION,
        "        await self._gate.wait_drained()\n",
        "",
        _STOOD_BACK,
    ),
    plant(
        "phases-before-the-participants-node-unseen",
        "I1a I5",
        _MIGRATION,
        "            # this one, the phase is older, and read now.\n"
        "            why = await self._read()\n",
        "            # this one, the phase is older, and read now.\n",
        _STOOD_BACK,
    ),
    plant(
        "sessions-without-a-participants-node",
        "I1a I5",
        _MIGRATION,
        "        if action is SessionAction.END:\n            self._withhold(_NOT_JOINED)\n",
        "        del action\n",
        _STOOD_BACK,
    ),
    plant(
        "unknown-phases-are-no-migration",
        "I1a I5",
        _RECORD,
        "return self.phase not in _AT_REST",
        'return self.phase in {"PREPARATION", "COPYING", "COMPLETED"}',
        _STOOD_BACK,
    ),
    plant(
        "the-gate-lets-transactions-through",
        "I5",
        _GATE,
        '        self._check(f"transaction of {len(operations)}")\n',
        "",
        _STOOD_BACK,
    ),
    plant(
        "the-gate-lets-batches-through",
        "I5",
        _GATE,
        '        self._check(f"{len(operations)} writes")\n',
        "",
        _STOOD_BACK,
    ),
    plant(
        "the-gate-is-drained-by-the-first-answer",
        "I4 I5",
        _GATE,
        "            if not self._writes:\n                self._has_no_writes.set()\n",
        "            self._has_no_writes.set()\n",
        _STOOD_BACK,
    ),
    plant(
        "withheld-authority-is-proven-again",
        "I1a",
        _WATCHER,
        "if epoch != self._epoch or self._lease is None or self.withheld:",
        "if epoch != self._epoch or self._lease is None:",
        unit("coordination/session"),
    ),
    plant(
        "authority-withheld-once-the-lease-is-over",
        "I1a",
        _WATCHER,
        "        if self.withheld:\n            return 0.0\n",
        "",
        unit("coordination/session/test_withheld.py"),
    ),
    plant(
        "watches-believed-by-their-return-code",
        "I6",
        _PROBE,
        "if [event.change for event in events if event.path == node.path] == _LIFE:",
        "if len(events) == len(_LIFE):",
        _PROBED,
    ),
)
