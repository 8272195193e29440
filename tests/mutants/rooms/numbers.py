"""Breaks of the numbers of requests, and of the thread that writes while the loop stands."""

from typing import Final

from tests.mutants.mutant import Mutant, contract, plant, scenarios, unit

_PENDING: Final = "store/zookeeper/connection.py"
_CONNECTION: Final = "store/zookeeper/connection.py"
_SESSION: Final = "store/zookeeper/session.py"
_STALLS: Final = "store/zookeeper/connection.py"
_THREAD: Final = "store/zookeeper/liveness.py"
_ARRIVALS: Final = "store/zookeeper/connection.py"

_NUMBERED: Final = unit(
    "store/zookeeper/test_xids.py",
    "store/zookeeper/connections",
    "store/zookeeper/test_session.py",
)
_STALLED: Final = unit(
    "store/zookeeper/connections/test_stall_writes.py",
    "store/zookeeper/connections/test_keepalive.py",
    "store/zookeeper/connections/test_arrivals.py",
    "coordination/session",
)
_BUSY: Final = scenarios("test_busy_loops")
_REAL: Final = contract("coordination/test_zookeeper.py", "contract/test_sessions.py")

NUMBERS: Final[tuple[Mutant, ...]] = (
    # Numbers of requests.
    plant(
        "numbers-begin-again-with-each-connection",
        "I1a I2 I4",
        _CONNECTION,
        "while the ping has no answer\n        self._xids = xids\n",
        "while the ping has no answer\n        self._xids = Xids()\n",
        _NUMBERED,
    ),
    plant(
        "thread-numbers-its-writes-for-itself",
        "I1a I2 I4",
        _CONNECTION,
        "StallWrites(self.stream, xids)",
        "StallWrites(self.stream, Xids())",
        _NUMBERED,
        _STALLED,
    ),
    plant(
        "kept-sessions-number-from-the-start",
        "I1a I2 I4",
        _SESSION,
        "Xids(options.resumed.last_xid)",
        "Xids()",
        _NUMBERED,
    ),
    plant(
        "kept-sessions-forget-their-last-number",
        "I1a I2 I4",
        "daemon/wiring/stores.py",
        "session.last_xid",
        "0",
        unit("daemon/wiring/test_session_file.py"),
    ),
    plant(
        "numbers-overflow",
        "I4 I10",
        _PENDING,
        "% _MAX_XID + 1",
        "+ 1",
        _NUMBERED,
    ),
    plant(
        "numbers-of-servers-own-requests",
        "I4",
        _PENDING,
        "return next(self._numbers) % _MAX_XID + 1",
        "return next(self._numbers) % _MAX_XID",
        _NUMBERED,
    ),
    plant(
        "replies-of-any-number",
        "I2 I4",
        _CONNECTION,
        "elif self._pending and self._pending[0].xid == xid:",
        "elif self._pending and xid > 0:",
        _NUMBERED,
    ),
    plant(
        "mismatched-replies-leave-the-connection",
        "I2 I4",
        _CONNECTION,
        "_ENDS: Final = (errors.SessionExpired, errors.SessionMoved, wire.MismatchedReply)",
        "_ENDS: Final = (errors.SessionExpired, errors.SessionMoved)",
        _NUMBERED,
    ),
    plant(
        "mismatched-replies-taken-for-refusals",
        "I4",
        _PENDING,
        "            self.lose(error)\n            return error\n",
        "            future.set_exception(error)\n            return error\n",
        _NUMBERED,
        unit("store/zookeeper/test_lost_replies.py"),
    ),
    # The thread that writes while the loop stands.
    plant(
        "stall-writes-under-one-number",
        "I1a I4",
        _STALLS,
        "write.numbered(xid)",
        "write.frame",
        _STALLED,
        _NUMBERED,
    ),
    plant(
        "stall-writes-noted-after-they-are-sent",
        "I1a",
        _STALLS,
        "        self._sent.append(_Sent(xid, self._clock.now_s(), write))\n"
        "        if self._stream.send_now(write.numbered(xid)):\n"
        "            return True\n"
        "        self._sent.pop()\n"
        "        return False\n",
        "        if self._stream.send_now(write.numbered(xid)):\n"
        "            self._sent.append(_Sent(xid, self._clock.now_s(), write))\n"
        "            return True\n"
        "        return False\n",
        _STALLED,
    ),
    plant(
        "unsent-stall-writes-await-replies",
        "I1a I12",
        _STALLS,
        "        self._sent.pop()\n        return False\n",
        "        return False\n",
        _STALLED,
    ),
    plant(
        "unread-bytes-counted-before-the-loop",
        "I1a",
        _STALLS,
        "        read_bytes = self._read_bytes\n"
        "        total_bytes = read_bytes + self._stream.unread_bytes()\n",
        "        unread_bytes = self._stream.unread_bytes()\n"
        "        total_bytes = self._read_bytes + unread_bytes\n",
        _STALLED,
    ),
    plant(
        "a-part-keeps-the-note-of-the-one-before",
        "I1a",
        _STALLS,
        "        if at < end:\n            self._arrived_s = None\n",
        "        if at < end:\n",
        _STALLED,
    ),
    plant(
        "thread-notes-nothing",
        "I12",
        _THREAD,
        "            self._stall_writes.note()\n",
        "",
        _STALLED,
        _REAL,
    ),
    plant(
        "thread-sends-beside-a-loop-that-runs",
        "I10 I12",
        _THREAD,
        "self._is_late = now_s - turn_s >= _LATE_PERIODS * self._period_s",
        "self._is_late = now_s >= turn_s",
        _STALLED,
    ),
    plant(
        "thread-writes-without-the-watchdog",
        "I12",
        _THREAD,
        "elif self._watchdog.allows_ping(turn_s, now_s):",
        "elif self._watchdog:",
        _STALLED,
        _BUSY,
    ),
    plant(
        "received-bytes-in-one-part",
        "I1a",
        _ARRIVALS,
        "            for part in self._stall_writes.parts(self._data.popleft()):\n"
        "                yield from self._cutter.cut(self._stream.read(part))\n",
        "            parts = list(self._stall_writes.parts(self._data.popleft()))\n"
        '            yield from self._cutter.cut(self._stream.read(b"".join(parts)))\n',
        _STALLED,
    ),
    plant(
        "stall-replies-settled-out-of-turn",
        "I1a",
        _STALLS,
        "return bool(self._sent) and self._sent[0].xid == xid",
        "return any(sent.xid == xid for sent in self._sent)",
        _STALLED,
        _NUMBERED,
    ),
)
