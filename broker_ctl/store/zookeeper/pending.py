"""Requests on the wire: their numbers, and how they end."""

import asyncio
import itertools
import struct
from collections.abc import Callable
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire

# Called with the request, and with the seconds between sending it and the reply.
OnReply = Callable[[str, float], None]

# A signed int of four bytes; 0 is the number of the requests that servers make themselves.
_MAX_XID: Final = 0x7FFFFFFF


class Xids:
    """Numbers of requests: one sequence for the life of a session (docs: zookeeper-xids).

    A server sends a commit to the request that waits for it by session id and xid, and looks at
    nothing else. A write of a connection that has ended may still be a proposal when the session
    has moved to another server. If the next connection counted from 1 again, the commit of that
    write would answer another request of the same number. Any thread may take one.

    Args:
        after: the last number that an earlier process has used in the same session.
    """

    def __init__(self, after: int = 0) -> None:
        # `next` of this counter is one step of the interpreter: the loop and the thread that writes
        # for it never get the same number.
        self._numbers = itertools.count(after)

    def next(self) -> int:
        """A number that no request of the session has, from 1 on."""
        return next(self._numbers) % _MAX_XID + 1


class Pending:
    """A sent request.

    If its caller has cancelled the future, it keeps its place until the reply.
    """

    __slots__ = ("_on_reply", "call", "future", "sent_s", "xid")

    def __init__(
        self,
        xid: int,
        call: wire.Call[Any] | None,
        future: "asyncio.Future[Any]",
        sent_s: float,
        on_reply: OnReply | None = None,
    ) -> None:
        self.xid = xid
        self.call = call
        self.future = future
        self.sent_s = sent_s
        self._on_reply = on_reply

    @property
    def is_read(self) -> bool:
        """Whether it may be sent again, whatever its outcome was."""
        return self.call is not None and not self.call.is_write

    def answer(self, data: bytes) -> errors.StoreError | None:
        """Settle with a reply whose header has no error.

        Return an error of the session in its parts.
        """
        self._replied()
        future, call = self.future, self.call
        if future.done():
            return None
        if call is None:
            future.set_result(None)
            return None
        try:
            future.set_result(call.decode(data, wire.REPLY_HEADER_BYTES))
        except wire.MismatchedReply as error:
            self.lose(error)
            return error
        except errors.StoreError as error:
            # Its traceback has this function, which has the future: as `RequestPipeline.call`.
            future.set_exception(error.with_traceback(None))
            return error
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            # The write was done, but its result has to be read back.
            kind = errors.Ambiguous if call.is_write else errors.StoreError
            future.set_exception(kind(f"{call}: unreadable reply: {error}"))
        return None

    def refuse(self, code: int) -> errors.StoreError:
        """Settle with an error of the server; return the error that the caller gets."""
        self._replied()
        error = wire.error_of(code, self.call.path if self.call else "")
        gave_up = errors.ConnectionLoss | errors.OperationTimeout
        if self.call is not None and self.call.is_write and isinstance(error, gave_up):
            # A server that gave up waiting does not know whether the write was applied.
            error = errors.Ambiguous(str(error))
        self.fail(error)
        return error

    def lose(self, why: errors.StoreError) -> None:
        """Fail because the connection ended before the reply came."""
        is_write = self.call is not None and self.call.is_write
        kind = errors.Ambiguous if is_write else errors.ConnectionLoss
        self.fail(kind(f"{self.call or 'request'}: {why}"))

    def _replied(self) -> None:
        # Even after the caller has given up: the server did take this long.
        if self._on_reply is not None and self.call is not None:
            self._on_reply(self.call.what, self.future.get_loop().time() - self.sent_s)

    def fail(self, error: errors.StoreError) -> None:
        """Fail the request, which will never have an answer."""
        if not self.future.done():
            self.future.set_exception(error)
