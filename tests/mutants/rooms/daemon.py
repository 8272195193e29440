"""Breaks of how a daemon starts, stops, and hears of its stores."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, scenarios, schedules, unit

_LIFECYCLE: Final = "daemon/lifecycle/lifecycle.py"
_SERVING: Final = "daemon/lifecycle/serving.py"
_CAUSES: Final = "daemon/lifecycle/exits.py"

_STOPPED: Final = unit("daemon/lifecycle", "daemon/test_expiries.py")
_STOPS: Final = scenarios("test_stops")
_SILENT: Final = scenarios("test_silent_processes")
_LATE: Final = schedules(0, 64)

DAEMON: Final[tuple[Mutant, ...]] = (
    plant(
        "session-closed-while-served",
        "I1a I8",
        _LIFECYCLE,
        "await store.close(end_session=not left)",
        "await store.close(end_session=True)",
        _STOPS,
        _LATE,
    ),
    plant(
        "session-left-although-nothing-is",
        "I8",
        _LIFECYCLE,
        "await store.close(end_session=not left)",
        "await store.close(end_session=False)",
        _STOPPED,
        _STOPS,
        _LATE,
    ),
    plant(
        "stops-without-draining",
        "I8",
        _LIFECYCLE,
        '        await self._stage("draining", ownership.drain(left_s), left_s + _STAGE_S)\n',
        "",
        _STOPS,
        _LATE,
    ),
    plant(
        "unregistered-before-the-drain",
        "I7",
        _LIFECYCLE,
        '        await self._stage("draining", ownership.drain(left_s), left_s + _STAGE_S)\n'
        '        await self._stage("unregistering", registry.unregister(), _STAGE_S)\n',
        '        await self._stage("unregistering", registry.unregister(), _STAGE_S)\n'
        '        await self._stage("draining", ownership.drain(left_s), left_s + _STAGE_S)\n',
        _STOPS,
        _LATE,
    ),
    plant(
        "silent-processes-unregister-first",
        "I7 I11",
        _SERVING,
        "        await services.ownership.release_all()\n",
        "        await coordination.registry.unregister()\n"
        "        await services.ownership.release_all()\n",
        _SILENT,
        _LATE,
    ),
    plant(
        "silent-processes-keep-their-bundles",
        "I11",
        _SERVING,
        "        await services.ownership.release_all()\n",
        "",
        _SILENT,
        _LATE,
    ),
    plant(
        "silent-processes-are-not-waited-for",
        "I11",
        "broker/ownership/ownership.py",
        "            await self._dependencies.watcher.wait_past(granted_until_s)\n",
        "            pass\n",
        unit("broker/ownership/test_reclaim.py"),
        _SILENT,
    ),
    plant(
        "broker-processes-read-the-session",
        "I1a I11",
        "daemon/wiring/broker.py",
        "lambda: services.ownership.granted",
        "lambda: services.ownership._grant",
        unit("daemon/wiring/test_status.py"),
    ),
    plant(
        "acts-before-the-first-heartbeat",
        "I1a",
        _SERVING,
        "        await self._base.watcher.wait_authority()\n",
        "",
        _STOPPED,
        _LATE,
    ).proven_equal(
        "each act looks at the lease where it starts: reclaim waits for authority before each "
        "transaction, an acquisition and a lookup check it, and what the data plane is granted is "
        "the watcher's own deadline, 0 before the first committed heartbeat; the wait only keeps "
        "a broker from registering before it could serve"
    ),
    plant(
        "end-with-configuration",
        "I6",
        _CAUSES,
        "        why = store.ended_by\n",
        "        if event is SessionEvent.EXPIRED and store.name == "
        '"configuration-metadata-store":\n'
        '            self._decide(exit_codes.SESSION_LOST, "the session is lost")\n'
        "        why = store.ended_by\n",
        _STOPPED,
        schedules(),
    ),
    plant(
        "expiries-do-not-end-the-daemon",
        "I7",
        _CAUSES,
        "if action is SessionAction.SESSION_LOST and policy is SessionExpiredPolicy.SHUTDOWN:",
        "if action is SessionAction.BEGIN and policy is None:",
        _STOPPED,
    ),
    plant(
        "miss-configuration",
        "I6",
        "coordination/directives.py",
        "    def _changed(self, notification: Notification) -> None:\n",
        "    def _on_session_event(self, event: object) -> None: ...\n\n"
        "    def _changed(self, notification: Notification) -> None:\n",
        unit("coordination/replicated"),
        schedules(),
    ),
)
