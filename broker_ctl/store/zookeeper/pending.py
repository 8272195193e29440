"""A request on the wire, and how it ends."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire

# Told what was asked, and how many seconds after it was sent the reply came.
OnReply = Callable[[str, float], None]


class Pending:
    """Waits for its reply; a caller that gave up has cancelled its future, its place stays."""

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
        """Whether it may be asked again, whatever became of it."""
        return self.call is not None and not self.call.is_write

    def answer(self, data: bytes) -> errors.StoreError | None:
        """A reply without an error in its header came; returns one that its parts speak of."""
        self._replied()
        future, call = self.future, self.call
        if future.done():
            return None
        if call is None:
            future.set_result(None)
            return None
        try:
            future.set_result(call.decode(data, wire.REPLY_HEADER_BYTES))
        except errors.StoreError as error:
            future.set_exception(error)
            return error
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            # A write was done, but with what result has to be read back.
            kind = errors.Ambiguous if call.is_write else errors.StoreError
            future.set_exception(kind(f"{call}: unreadable reply: {error}"))
        return None

    def refuse(self, code: int) -> errors.StoreError:
        """The server answered with an error; returns the error that the caller gets."""
        self._replied()
        error = wire.error_of(code, self.call.path if self.call else "")
        gave_up = errors.ConnectionLoss | errors.OperationTimeout
        if self.call is not None and self.call.is_write and isinstance(error, gave_up):
            # A server that gave up waiting does not know what became of the write.
            error = errors.Ambiguous(str(error))
        self.fail(error)
        return error

    def lose(self, why: errors.StoreError) -> None:
        """The connection ended before the reply came."""
        is_write = self.call is not None and self.call.is_write
        kind = errors.Ambiguous if is_write else errors.ConnectionLoss
        self.fail(kind(f"{self.call or 'request'}: {why}"))

    def _replied(self) -> None:
        # Also after the caller has given up: the server did take this long.
        if self._on_reply is not None and self.call is not None:
            self._on_reply(self.call.what, self.future.get_loop().time() - self.sent_s)

    def fail(self, error: errors.StoreError) -> None:
        """It has no answer, and never will have."""
        if not self.future.done():
            self.future.set_exception(error)
