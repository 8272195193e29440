"""How much of what has arrived one turn of the loop takes."""

import asyncio
import struct
from dataclasses import dataclass

from broker_ctl.store.zookeeper.connection import (
    BYTES_A_TURN,
    LEAST_FRAME_BYTES,
    Arrivals,
    StallWrites,
    Xids,
)
from broker_ctl.store.zookeeper.stream import Stream

MOST_BYTES = 1 << 20
FRAMES_A_TURN = BYTES_A_TURN // LEAST_FRAME_BYTES


@dataclass
class Socket(asyncio.Transport):
    """A transport that notes whether it is read."""

    is_read: bool = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False


def framed(*sizes_bytes: int) -> bytes:
    return b"".join(struct.pack("!i", size) + bytes(size) for size in sizes_bytes)


def opened() -> tuple[Arrivals, Socket]:
    stream, transport = Stream(asyncio.get_running_loop()), Socket()
    stream.open(transport)
    return Arrivals(stream, StallWrites(stream, Xids()), MOST_BYTES), transport


async def test_a_turn_takes_a_bounded_number_of_small_frames_and_the_next_one_the_rest() -> None:
    arrivals, transport = opened()
    arrivals.add(framed(*[10] * (FRAMES_A_TURN + 5)))
    assert len(list(arrivals.of_turn())) == FRAMES_A_TURN
    assert arrivals.is_behind
    assert not transport.is_read, "what follows waits in the system"
    # What is received nevertheless comes after what was there.
    arrivals.add(framed(20))
    assert [len(frame) for frame in arrivals.of_turn()] == [10] * 5 + [20]
    assert not arrivals.is_behind
    assert transport.is_read


async def test_a_turn_takes_no_more_large_frames_than_fill_it() -> None:
    arrivals, _ = opened()
    arrivals.add(framed(*[BYTES_A_TURN // 2] * 3))
    assert len(list(arrivals.of_turn())) == 2
    assert len(list(arrivals.of_turn())) == 1


async def test_frames_in_pieces_are_put_together_across_turns() -> None:
    arrivals, _ = opened()
    data = framed(*[100] * (2 * FRAMES_A_TURN))
    taken = 0
    for start in range(0, len(data), 37):
        arrivals.add(data[start : start + 37])
        if not arrivals.is_behind:
            taken += len(list(arrivals.of_turn()))
    while arrivals.is_behind:
        taken += len(list(arrivals.of_turn()))
    assert taken == 2 * FRAMES_A_TURN
