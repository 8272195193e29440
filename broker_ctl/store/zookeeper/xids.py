"""Numbers of requests: one sequence for the life of a session (docs: zookeeper-xids).

A server sends a commit to the request that waits for it by session id and xid, and looks at nothing
else. A write of a connection that has ended may still be a proposal when the session has moved to
another server. If the next connection counted from 1 again, the commit of that write would answer
another request of the same number.
"""

import itertools
from typing import Final

# A signed int of four bytes; 0 is the number of the requests that servers make themselves.
_MOST: Final = 0x7FFFFFFF


class Xids:
    """Hands out each number once in `_MOST` requests; from any thread.

    Args:
        after: the last number that an earlier process has used in the same session.
    """

    def __init__(self, after: int = 0) -> None:
        # `next` of this counter is one step of the interpreter: the loop and the thread that writes
        # for it never get the same number.
        self._numbers = itertools.count(after)

    def next(self) -> int:
        """A number that no request of the session has, from 1 on."""
        return next(self._numbers) % _MOST + 1
