"""Breaks of the ZooKeeper client: lost answers, sessions on the wire, and of the caches above."""

from typing import Final

from tests.mutants.mutant import Mutant, contract, plant, schedules, unit

_RESOLVE: Final = "store/zookeeper/resolve.py"
_REQUESTS: Final = "store/zookeeper/requests.py"
_SESSION: Final = "store/zookeeper/session.py"
_CACHE: Final = "store/watched_cache.py"

_JUDGED: Final = unit("store/zookeeper/test_resolve.py")
_ASKED: Final = unit(
    "store/zookeeper/test_lost_replies.py",
    "store/zookeeper/test_requests.py",
    "store/zookeeper/test_restore.py",
    "store/zookeeper/test_server_kill.py",
)
_OPENED: Final = unit(
    "store/zookeeper/test_session.py",
    "store/zookeeper/test_restore.py",
    "store/zookeeper/test_outlook.py",
)
_WATCHED: Final = unit("store/caches")
_KEPT: Final = contract("contract/test_caches.py", "contract/test_sessions.py")

STORE: Final[tuple[Mutant, ...]] = (
    # Answers that are lost.
    plant(
        "resend-blindly",
        "I4",
        _RESOLVE,
        "    if len(operations) == 1:\n        if is_numbered",
        "    return Verdict.NOT_APPLIED\n    if len(operations) == 1:\n        if is_numbered",
        _JUDGED,
        schedules(),
    ),
    plant(
        "lost-creates-known-by-their-data",
        "I2 I4",
        _RESOLVE,
        "if found is None or found.stat.czxid <= sender.zxid_before:\n"
        "        return WriteVerdict.NOT_APPLIED\n    owner",
        "if found is None:\n        return WriteVerdict.NOT_APPLIED\n    owner",
        _JUDGED,
        _ASKED,
    ),
    plant(
        "lost-ephemerals-of-any-session",
        "I2 I4",
        _RESOLVE,
        "if owner != (sender.session_id if operation.mode.is_ephemeral else 0):",
        "if bool(owner) != operation.mode.is_ephemeral:",
        _JUDGED,
        _ASKED,
    ),
    plant(
        "lost-writes-known-by-their-version",
        "I4",
        _RESOLVE,
        "return WriteVerdict.APPLIED if is_equal else WriteVerdict.NOT_APPLIED\n    return",
        "return WriteVerdict.APPLIED\n    return",
        _JUDGED,
        _ASKED,
    ),
    plant(
        "lost-writes-older-than-the-sender",
        "I4",
        _RESOLVE,
        "if found is None or found.stat.mzxid <= sender.zxid_before:",
        "if found is None:",
        _JUDGED,
        _ASKED,
    ),
    plant(
        "lost-answers-read-without-sync",
        "I4",
        _REQUESTS,
        "        await self.read(wire.sync(paths[0], self._root))\n",
        "",
        _ASKED,
        contract("contract/test_multi.py", "contract/test_sessions.py"),
    ),
    plant(
        "lost-writes-pass-to-the-next-session",
        "I4 I8",
        _REQUESTS,
        "if self._session.session_id != lost.session_id and (",
        "if self._session.session_id < 0 and (",
        _ASKED,
    ),
    plant(
        "queued-writes-pass-to-the-next-session",
        "I4 I8",
        "store/zookeeper/request_pipeline.py",
        "        self._fail_waiting(errors.SessionExpired(why))\n",
        "",
        unit("store/zookeeper/test_request_pipeline.py", "store/zookeeper/test_session.py"),
        contract("contract/test_sessions.py"),
    ),
    # Sessions.
    plant(
        "session-ids-not-compared",
        "I7 I8",
        _SESSION,
        "if self._session_id not in {0, handshake.session_id}:",
        "if self._session_id == 1:",
        _OPENED,
    ),
    plant(
        "newest-zxid-not-shown",
        "I4 I6",
        _SESSION,
        "                self._password,\n                self.last_zxid,\n",
        "                self._password,\n                0,\n",
        _OPENED,
        _ASKED,
    ),
    plant(
        "watches-not-set-again",
        "I6",
        _SESSION,
        "for roots in self.watches.chunks():",
        "for roots in list(self.watches.chunks())[:0]:",
        unit("store/zookeeper/test_watches.py", "store/zookeeper/test_session.py"),
        contract("contract/test_watches.py"),
    ),
    plant(
        "timeouts-grow-at-the-next-server",
        "I1a",
        _SESSION,
        "min(options.timeout_s, self._timeout_s) if is_known else options.timeout_s",
        "options.timeout_s",
        _OPENED,
    ),
    plant(
        "moved-sessions-are-resumed",
        "I1a I5",
        _SESSION,
        'self._expire("another connection took it over")',
        "...",
        _OPENED,
        contract("contract/test_sessions.py"),
    ),
    plant(
        "listeners-after-requests",
        "I6",
        _SESSION,
        "        notify_listeners(self._listeners, event)\n"
        "        self._line.connect(connection, self._session_id)\n",
        "        self._line.connect(connection, self._session_id)\n"
        "        asyncio.get_running_loop().call_later(\n"
        "            0.05, notify_listeners, self._listeners, event\n"
        "        )\n",
        _OPENED,
        _KEPT,
    ),
    # Caches.
    plant(
        "caches-kept-on-reconnect",
        "I6",
        _CACHE,
        "        self._stops.append(self._store.listen(self._on_session_event))\n",
        "",
        _WATCHED,
        _KEPT,
        schedules(0, 32),
    ),
    plant(
        "reads-overtaken-by-events-remembered",
        "I6",
        _CACHE,
        "if is_newest and self._is_watching and self._is_connected:",
        "if self._is_watching and self._is_connected:",
        _WATCHED,
        _KEPT,
        schedules(0, 32),
    ),
    plant(
        "reads-of-an-outage-remembered",
        "I6",
        _CACHE,
        "if is_newest and self._is_watching and self._is_connected:",
        "if is_newest and self._is_watching:",
        _WATCHED,
        _KEPT,
        schedules(0, 32),
    ),
    plant(
        "ask-configuration-always",
        "I6",
        "store/cached_values.py",
        "if self._is_away:",
        "if self._is_away and path in ():",
        _WATCHED,
        unit("broker/namespaces", "broker/policies"),
        schedules(),
    ),
)
