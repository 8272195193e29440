"""How a request fails at its deadline."""

import asyncio
from typing import Any

import pytest

from broker_ctl.errors import Ambiguous, NoNode
from broker_ctl.store.interface import Create
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.requests import Requests

DEADLINE_S = 0.2


class Losing:
    """A session that loses the reply of every write; reads do not find what was written.

    The last answer is there as the deadline passes, within one turn of the loop.
    """

    session_id = 7

    def __init__(self) -> None:
        self.end_s = asyncio.get_running_loop().time() + DEADLINE_S
        self.asked: list[str] = []

    def next_place(self) -> int:
        return 1

    async def call(self, call: wire.Call[Any], _timeout_s: float, _place: int = 0) -> Any:
        self.asked.append(call.what)
        if call.is_write:
            raise Ambiguous(f"{call}: lost", self.session_id, 5)
        if call.what == "sync":
            return None
        loop = asyncio.get_running_loop()
        while loop.time() < self.end_s:
            continue
        raise NoNode(call.path)


async def test_a_write_that_was_not_seen_by_its_deadline_is_not_said_to_be_undone() -> None:
    """The sync before the reading may have been answered by a leader that was deposed."""
    session = Losing()
    requests = Requests(session, DEADLINE_S, [])  # type: ignore[arg-type]  # what it needs of one
    with pytest.raises(Ambiguous, match="lost"):
        await requests.write_many([Create("/a")], session.end_s)
    assert session.asked == ["create", "sync", "get"]
