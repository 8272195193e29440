import asyncio

from broker_ctl.store.zookeeper.connection import Connection
from broker_ctl.store.zookeeper.session import keep_alive
from tests.support.time.waiting import eventually


class Stalled(Connection):
    """A connection whose answer is in the socket: the loop reads it some turns later, or never."""

    def __init__(self, turns: int) -> None:
        super().__init__(on_event=print, on_zxid=print, on_room=print, max_frame_bytes=1)
        self.turns = turns
        self.looks = 0

    @property
    def unanswered_s(self) -> float:
        self.looks += 1
        if self.looks == 1:
            self._turn()
        return 1.0 if self.turns else 0.0

    def _turn(self) -> None:
        if self.turns:
            self.turns -= 1
            self._loop.call_soon(self._turn)


async def test_what_lies_in_the_socket_after_a_stall_is_read_before_the_server_is_judged() -> None:
    connection = Stalled(turns=2)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(keep_alive(connection, 0.3), name="keep alive")
        await eventually(lambda: connection.looks >= 3)
        keeping.cancel()
    assert not connection.is_closed


async def test_a_server_that_says_nothing_for_a_third_of_the_timeout_is_left() -> None:
    connection = Stalled(turns=1_000_000)
    async with asyncio.timeout(60):
        await keep_alive(connection, 0.3)
    assert connection.is_closed
    assert "no answer for 1.0 s" in str(await connection.wait_closed())
