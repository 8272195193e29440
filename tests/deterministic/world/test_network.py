"""The network in memory does to frames what a real one does, and on command its worst."""

import pytest

from broker_ctl.lab.replication.tcp import Channel, ChannelClosed
from tests.deterministic.world.loops import Turns, new_loop
from tests.deterministic.world.network import MemoryNetwork

ADDRESS = "b:1"


class Scene:
    """Host ``b`` echoes whatever it is sent; host ``a`` asks. Delays fall: order must not."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.asking, self.serving = new_loop(self.turns, "a"), new_loop(self.turns, "b")
        self.delay_s = 1.0
        self.network = MemoryNetwork(self._fall)
        self.seen: list[bytes] = []
        listening = self.serving.create_task(self.network.of("b").listen(ADDRESS, self._echo))
        self.turns.run_until(listening.done)
        self.listener = listening.result()
        self.channel = self.connect()

    def _fall(self) -> float:
        self.delay_s /= 2
        return self.delay_s

    async def _echo(self, channel: Channel) -> None:
        try:
            while True:
                self.seen.append(await channel.receive())
                await channel.send(self.seen[-1])
        except ChannelClosed:
            self.seen.append(b"closed")

    def connect(self) -> Channel:
        task = self.asking.create_task(self.network.of("a").connect(ADDRESS))
        self.turns.run_until(task.done)
        return task.result()

    def ask(self, *frames: bytes, limit_s: float = 5.0) -> list[bytes]:
        """Sends all at once, and returns what came back in time."""
        found: list[bytes] = []

        async def work() -> None:
            for frame in frames:
                await self.channel.send(frame)
            while True:
                found.append(await self.channel.receive())

        task = self.asking.create_task(work())
        end_s = self.turns.now_s + limit_s
        self.asking.call_later(limit_s + 1.0, lambda: None)
        self.turns.run_until(lambda: task.done() or self.turns.now_s > end_s)
        if task.done():
            raise task.exception() or AssertionError
        task.cancel()
        return found


def test_frames_come_whole_and_in_order_and_take_a_while() -> None:
    scene = Scene()
    began_s = scene.turns.now_s
    assert scene.ask(b"1", b"2", b"3") == [b"1", b"2", b"3"]
    assert scene.seen == [b"1", b"2", b"3"]
    assert scene.turns.now_s > began_s


def test_what_a_sleeping_machine_was_sent_is_read_when_it_wakes_and_delays_nothing() -> None:
    scene = Scene()
    scene.serving.suspend()
    assert scene.ask(limit_s=10.0) == []
    assert scene.ask(b"1", limit_s=1.0) == []
    scene.serving.continue_process()
    assert scene.ask(b"2") == [b"1", b"2"]


def test_a_stopped_process_receives_what_was_sent_meanwhile() -> None:
    scene = Scene()
    scene.serving.stop_process()
    assert scene.ask(b"1", b"2") == []
    scene.serving.continue_process()
    assert scene.ask() == [b"1", b"2"]


def test_a_closed_channel_is_noticed_by_the_other_end() -> None:
    scene = Scene()
    assert scene.ask(b"1") == [b"1"]
    scene.channel.close()
    with pytest.raises(ChannelClosed):
        scene.ask(b"2")
    scene.turns.run_until(lambda: scene.seen == [b"1", b"closed"])


def test_a_cut_resets_both_ends_and_refuses_until_it_is_healed() -> None:
    scene = Scene()
    scene.network.cut("a", "b")
    with pytest.raises(ChannelClosed):
        scene.ask(b"1")
    with pytest.raises(ChannelClosed):
        scene.connect()
    scene.turns.run_until(lambda: scene.seen == [b"closed"])
    scene.network.heal_all()
    scene.channel = scene.connect()
    assert scene.ask(b"2") == [b"2"]


def test_silence_notifies_neither_end_and_streams_end_when_it_heals() -> None:
    scene = Scene()
    scene.network.fall_silent("a", "b")
    assert scene.ask(b"1") == []
    assert scene.seen == []
    with pytest.raises(ChannelClosed):
        scene.connect()
    scene.network.heal_all()
    with pytest.raises(ChannelClosed):
        scene.ask(b"2")
    scene.channel = scene.connect()
    assert scene.ask(b"3") == [b"3"]


def test_a_dead_process_hears_and_says_nothing_more() -> None:
    scene = Scene()
    scene.network.drop("b")
    with pytest.raises(ChannelClosed):
        scene.ask(b"1")
    with pytest.raises(ChannelClosed):
        scene.connect()
    assert scene.network.ends == {}


def test_an_address_has_one_listener_which_may_go() -> None:
    scene = Scene()
    again = scene.serving.create_task(scene.network.of("b").listen(ADDRESS, scene._echo))
    scene.turns.run_until(again.done)
    assert isinstance(again.exception(), OSError)
    ended = scene.serving.create_task(scene.listener.close())
    scene.turns.run_until(ended.done)
    with pytest.raises(ChannelClosed):
        scene.connect()
