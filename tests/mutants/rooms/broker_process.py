"""Breaks of the calls to a broker process: tokens, fences, numbers, silence."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, schedules, unit
from tests.mutants.rooms.ownership_tests import IN_OWNERSHIP

_TOKENS: Final = "dataplane/bundles/bundle_table.py"
_TABLE: Final = "dataplane/bundles/bundle_table.py"
_AUTHORITY: Final = "dataplane/bundles/interface.py"
_LINK: Final = "dataplane/webhook/webhook.py"
_WEBHOOK: Final = "dataplane/webhook/webhook.py"
_WATCH: Final = "broker/ownership/dataplane_watch.py"

_KEPT: Final = unit("dataplane/bundles")
_CALLED: Final = unit("dataplane/webhook")
_WATCHED: Final = unit("broker/ownership/test_dataplane_watch.py", *IN_OWNERSHIP)
_LATE: Final = schedules(0, 64)

BROKER_PROCESS: Final[tuple[Mutant, ...]] = (
    # Tokens.
    plant(
        "tokens-not-compared",
        "I1b",
        _TOKENS,
        "        if token < highest:\n",
        "        if token < 0:\n",
        _KEPT,
        _LATE,
    ),
    plant(
        "tokens-not-remembered",
        "I1b",
        _TOKENS,
        "        self.check(bundle, token)\n        self.remember(bundle, token)\n",
        "        self.check(bundle, token)\n",
        _KEPT,
        _LATE,
    ),
    plant(
        "tokens-of-a-part-only",
        "I1b",
        _TOKENS,
        "return max(self.tokens[first : bisect_left(self.starts, _end(span))])",
        "return self.tokens[first]",
        _KEPT,
    ),
    plant(
        "tokens-go-down",
        "I1b",
        _TOKENS,
        "max(tokens[i], token)) for i in range",
        "token) for i in range",
        _KEPT,
    ),
    plant(
        "renewed-under-any-token",
        "I1b I2",
        _TABLE,
        "        self._tokens.check(bundle, token)\n        entry",
        "        entry",
        _KEPT,
    ),
    plant(
        "split-under-any-token",
        "I1b I2",
        _TABLE,
        "            self._tokens.check(child, token)\n",
        "            ...\n",
        _KEPT,
    ),
    plant(
        "loaded-beside-an-overlap",
        "I5",
        _TABLE,
        "        self.drop(bundle)\n        kept",
        "        self._loaded.pop(bundle, None)\n        kept",
        _KEPT,
    ),
    # Authority.
    plant(
        "authority-rounded-up",
        "I1a",
        _AUTHORITY,
        "return max(0, int((self.deadline_s - now_s) * 1000))",
        "return max(0, int((self.deadline_s - now_s) * 1000) + 1)",
        _KEPT,
        _CALLED,
        unit("lab/conformance"),
    ),
    plant(
        "authority-without-a-deadline",
        "I1a",
        _AUTHORITY,
        "return now_s < self.deadline_s",
        "return self.deadline_s > 0",
        _KEPT,
        _LATE,
    ),
    plant(
        "authority-kept-at-the-stop",
        "I1a",
        _WEBHOOK,
        'it ends its acts by itself."""\n        self._authority = Authority()\n',
        'it ends its acts by itself."""\n',
        _CALLED,
        unit("daemon/lifecycle", "daemon/wiring"),
    ),
    # Calls.
    plant(
        "unnumbered-calls",
        "I1b I11",
        _LINK,
        "        await self.attach()\n        if meant_for",
        "        return {}\n        if meant_for",
        _CALLED,
        schedules(12),
    ),
    plant(
        "calls-keep-their-number",
        "I1b I11",
        _LINK,
        "self._next_call + 1",
        "self._next_call",
        _CALLED,
        unit("lab/conformance"),
        _LATE,
    ),
    plant(
        "calls-for-any-instance",
        "I11",
        _LINK,
        "        if meant_for and meant_for != self._attached:\n",
        "        if meant_for and not self._attached:\n",
        _CALLED,
    ),
    plant(
        "a-new-instance-is-not-attached-to",
        "I11",
        _LINK,
        "if not self._attached or self._attached != self.instance_id:",
        "if not self._attached:",
        _CALLED,
        _LATE,
    ),
    plant(
        "attach-not-confirmed",
        "I1b",
        _LINK,
        "                first = await self._close_earlier(instance_id, first)\n",
        "                first += 1\n",
        _CALLED,
        _LATE,
    ),
    plant(
        "late-answers-name-the-instance",
        "I11",
        _LINK,
        "if instance_id and sent_s >= self.heard_s:",
        "if instance_id:",
        _CALLED,
    ),
    plant(
        "loaded-of-another-instance",
        "I1b I11",
        _WEBHOOK,
        "            if self._state[wire.INSTANCE_ID] == attached:\n",
        "            if attached or True:\n",
        _CALLED,
    ),
    # What is looked at.
    plant(
        "unowned-bundles-not-fenced",
        "I1b I2",
        _WATCH,
        "left = loaded.keys() - await self._fence_unowned(loaded)",
        "left = loaded.keys()",
        _WATCHED,
        _LATE,
    ),
    plant(
        "unowned-at-the-first-look",
        "I6",
        _WATCH,
        "again, self._unowned = found & self._unowned, found",
        "again, self._unowned = found, found",
        _WATCHED,
        _LATE,
    ),
    plant(
        "unowned-known-by-the-bundle",
        "I1b I2",
        _WATCH,
        "held[bundle].state is BundleState.OWNED and held[bundle].token != token",
        "False",
        _WATCHED,
        _LATE,
    ),
    plant(
        "silence-not-noticed",
        "I11",
        _WATCH,
        "                if silent_s > self._timeout_s:\n",
        "                if silent_s < 0:\n",
        _WATCHED,
        _LATE,
    ),
    plant(
        "restarts-not-noticed",
        "I11",
        _WATCH,
        "await self._load_again({b: lock for b, lock in owned.items() if b not in left})",
        "...",
        _WATCHED,
        _LATE,
    ),
    plant(
        "loaded-again-although-lost",
        "I2 I5",
        _WATCH,
        "if held is None or held.state is not BundleState.OWNED or held.lock is not lock:",
        "if held is None:",
        _WATCHED,
        _LATE,
    ),
)
