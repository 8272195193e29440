"""Breaks of answers to lookups that are kept ready: each takes out what ends them."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, schedules, unit

_READY: Final = "api/binary/ready_answers.py"
_LOOKUP: Final = "broker/lookup/lookup.py"
_HELD: Final = "broker/ownership/held_bundles.py"
_CACHE: Final = "store/watched_cache.py"

_ANSWERED: Final = unit("api/binary/test_ready_answers.py")
_RECALLED: Final = unit("broker/lookup/test_recall.py")
_AGED: Final = unit("store/caches/test_ageing.py")

READY_ANSWERS: Final[tuple[Mutant, ...]] = (
    plant(
        "ready-answers-outlive-a-change",
        "I6",
        _READY,
        "if version != self._version or now_s",
        "if now_s",
        _ANSWERED,
    ),
    plant(
        "ready-answers-outlive-their-age",
        "I6",
        _READY,
        " or now_s >= self._until_s",
        "",
        _ANSWERED,
    ),
    plant(
        "ready-answers-without-a-lease",
        "I1a",
        _READY,
        "if not lookup.is_allowed():",
        "if lookup is None:",
        _ANSWERED,
    ),
    plant(
        "ready-answers-for-every-role",
        "I6",
        _READY,
        "(client.role, client.original, True, is_tls)",
        '("", "", True, is_tls)',
        unit("api/binary/test_ready_answers.py", "api/binary/test_authorization.py"),
    ),
    plant(
        "ready-answers-whatever-is-granted",
        "I6",
        _READY,
        "lookup.version + self._authorization.version",
        "lookup.version",
        _ANSWERED,
    ),
    plant(
        "ready-answers-of-one-topic-for-a-namespace",
        "I6",
        "api/binary/lookups.py",
        "if isinstance(known, Connect) and self._may_look_up_all(client, topic):",
        "if isinstance(known, Connect):",
        _ANSWERED,
    ),
    plant(
        "ready-answers-of-a-server-that-shuts-down",
        "I6",
        "api/binary/lookups.py",
        "return None if self._is_draining else self._ready",
        "return self._ready",
        _ANSWERED,
    ),
    plant(
        "ready-answers-do-not-know-the-ring",
        "I5 I6",
        _LOOKUP,
        " + self._namespaces.cache.version",
        "",
        _RECALLED,
        schedules(),
    ),
    plant(
        "ready-answers-do-not-know-the-policies",
        "I6",
        _LOOKUP,
        "self._cluster_router.version + ",
        "",
        _RECALLED,
        schedules(),
    ),
    plant(
        "ready-answers-do-not-know-the-owners",
        "I6",
        "broker/ownership/ownership.py",
        " + self._dependencies.owners.cache.version",
        "",
        _RECALLED,
        schedules(),
    ),
    plant(
        "a-state-changes-no-version",
        "I6",
        _HELD,
        "        if self.table is not None:\n            self.table.version += 1\n",
        "",
        _RECALLED,
        schedules(),
    ),
    plant(
        "an-acquired-bundle-changes-no-version",
        "I6",
        _HELD,
        "        held.table = self\n        self.version += 1\n",
        "        held.table = self\n",
        _RECALLED,
    ),
    plant(
        "an-event-changes-no-version",
        "I6",
        _CACHE,
        "        self.version += 1\n        self._entries.drop(path)",
        "        self._entries.drop(path)",
        _RECALLED,
        schedules(),
    ),
    plant(
        "an-outage-changes-no-version",
        "I6",
        _CACHE,
        "        self.version += 1\n        self._entries.clear()",
        "        self._entries.clear()",
        _RECALLED,
        schedules(),
    ),
    plant(
        "a-refresh-changes-no-version",
        "I6",
        _CACHE,
        "            self.version += 1\n        self._entries.put",
        "            pass\n        self._entries.put",
        _AGED,
    ),
)
