"""Breaks of serving on without ZooKeeper: promises, the list of members, admission."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, scenarios, schedules, unit

_PROMISES: Final = "core/failsafe/promises.py"
_GIVEN: Final = "coordination/failsafe/promises.py"
_ROUNDS: Final = "coordination/failsafe/rounds.py"
_AUTHORITY: Final = "coordination/failsafe/authority.py"
_MEMBERSHIP: Final = "coordination/failsafe/membership.py"
_ACQUIRE: Final = "broker/ownership/acquire.py"

_PURE: Final = unit("core/failsafe")
_MEMBERS: Final = unit("coordination/failsafe")
_OWNED: Final = unit("broker/ownership/test_admission.py")
_WHOLE: Final = scenarios("test_failsafe")
_LATE: Final = schedules(0, 64)

FAILSAFE: Final[tuple[Mutant, ...]] = (
    plant(
        "promise-by-another-list",
        "I1a",
        _PROMISES,
        "if now.members.version != version:",
        "if False:",
        _PURE,
        _LATE,
    ),
    plant(
        "promise-without-a-list",
        "I1a",
        _MEMBERSHIP,
        "return None if self.members is None else self.members.entry_of(self._broker_id)",
        "return None if self.members is None else next(iter([self.members.version]))",
        _MEMBERS,
        _WHOLE,
    ),
    plant(
        "promise-while-acquiring",
        "I1a",
        _PROMISES,
        "return Refusal.ACQUIRING if now.is_acquiring else None",
        "return None",
        _PURE,
        _LATE,
    ),
    plant(
        "promise-while-zookeeper-answers",
        "I6",
        _PROMISES,
        "    if now.has_store:\n",
        "    if False:\n",
        _PURE,
        _MEMBERS,
        _WHOLE,
    ),
    plant(
        "promises-do-not-bind",
        "I1a",
        _GIVEN,
        "self._until_s = max(self._until_s, self._clock.now_s() + PROMISE_S)",
        "pass",
        _MEMBERS,
        _LATE,
    ),
    plant(
        "promises-used-longer-than-they-bind",
        "I1a",
        _PROMISES,
        "return sent_s + PROMISE_S * (1 - _DRIFT_RATIO)",
        "return sent_s + PROMISE_S * (1 + _DRIFT_RATIO)",
        _PURE,
    ),
    plant(
        "most-promises-suffice",
        "I1a",
        _ROUNDS,
        "return not refused and self._authority",
        "return len(refused) < len(others) and self._authority",
        _MEMBERS,
        _WHOLE,
    ),
    plant(
        "promises-counted-from-their-answers",
        "I1a",
        _ROUNDS,
        "usable_until_s(sent_s)",
        "usable_until_s(self._clock.now_s())",
        unit("coordination/failsafe/test_rounds.py"),
    ),
    plant(
        "authority-comes-back-by-promises",
        "I1a",
        _AUTHORITY,
        "if epoch != self._watcher.epoch or self._clock.now_s() >= self.deadline_s:",
        "if epoch != self._watcher.epoch:",
        _MEMBERS,
        _LATE,
    ),
    plant(
        "promises-outlast-the-session",
        "I1a I2",
        _AUTHORITY,
        "if promised.epoch != watcher.epoch or watcher.state not in _STANDING:",
        "if False:",
        _MEMBERS,
        _LATE,
    ),
    plant(
        "admitted-at-once",
        "I1a",
        _MEMBERSHIP,
        "            await self._wait_read(entry)\n",
        "",
        _MEMBERS,
        _LATE,
    ),
    plant(
        "admitted-without-waiting-for-promises",
        "I1a",
        _MEMBERSHIP,
        "            await asyncio.sleep(PROMISE_S)\n",
        "",
        _MEMBERS,
        _WHOLE,
    ),
    plant(
        "a-former-entry-still-counts",
        "I1a",
        _MEMBERSHIP,
        "return self._admitted is not None and self._admitted == self._entry()",
        "return self._admitted is not None",
        _MEMBERS,
    ),
    plant(
        "members-removed-by-anybody",
        "I1a",
        _MEMBERSHIP,
        "        if not self.is_admitted:\n            raise NotAdmitted(f",
        "        if False:\n            raise NotAdmitted(f",
        _MEMBERS,
    ),
    plant(
        "acquire-despite-a-promise",
        "I1a",
        _ACQUIRE,
        "        # bundle is ASSIGNING.\n        self._admission.require()\n",
        "        # bundle is ASSIGNING.\n",
        _OWNED,
        _LATE,
    ),
    plant(
        "acquire-by-another-list",
        "I1a",
        _ACQUIRE,
        "checks = (*snapshot.checks, *self._admission.checks)",
        "checks = snapshot.checks",
        _OWNED,
        _LATE,
    ),
    plant(
        "reacquire-despite-a-promise",
        "I1a",
        "broker/ownership/reacquire.py",
        "        self._admission.require()\n        with self._counted():\n            locks",
        "        with self._counted():\n            locks",
        _OWNED,
        _LATE,
    ),
    plant(
        "reacquire-by-another-list",
        "I1a",
        "broker/ownership/reacquire.py",
        "checks = (*snapshot.checks, *self._admission.checks)",
        "checks = snapshot.checks",
        _OWNED,
        _LATE,
    ),
)
