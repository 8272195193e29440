"""Garbage in cycles goes, late, and the search for it never holds the interpreter for long."""

import asyncio
import gc
import logging
import sys
import weakref
from collections.abc import Iterator

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.lifecycle import start
from broker_ctl.daemon.lifecycle.interpreter import (
    BoundedSearch,
    collect_periodically,
    collect_young,
    freeze_garbage,
)
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.settings.root import Settings
from broker_ctl.tasks import TaskScope

HOUR_S = 3600.0


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.freeze()


@in_virtual_time
async def test_a_reference_cycle_is_collected_within_the_hour() -> None:
    freeze_garbage()
    garbage = weakref.ref(Ring())
    assert garbage() is not None
    async with TaskScope("test") as scope:
        scope.start(collect_periodically(30.0, LoopClock()), "collect")
        await asyncio.sleep(HOUR_S)
    assert garbage() is None


@in_virtual_time
async def test_the_session_timeout_decides_how_long_a_search_may_take() -> None:
    freeze_garbage()
    garbage = weakref.ref(Ring())
    async with TaskScope("test") as scope:
        scope.start(collect_periodically(1e-6, LoopClock()), "collect")
        await asyncio.sleep(HOUR_S)
    assert garbage() is not None


@in_virtual_time
async def test_many_new_objects_are_searched_within_minutes() -> None:
    freeze_garbage()
    async with TaskScope("test") as scope:
        scope.start(collect_periodically(30.0, LoopClock()), "collect")
        # It has looked once, at few objects.
        await asyncio.sleep(90.0)
        few = old_garbage()
        await asyncio.sleep(90.0)
        assert few() is not None
        # Blocks of memory, but few objects to search.
        many = [float(number) for number in range(1_600_000)]
        await asyncio.sleep(60.0)
        assert few() is None
    assert many


def old_garbage() -> "weakref.ref[Ring]":
    """Of an age at which only a search of all generations finds it."""
    ring = Ring()
    gc.collect(1)
    return weakref.ref(ring)


class Memory:
    """As many blocks of memory as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks = 1_000_000
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: self.blocks)


@pytest.mark.parametrize("blocks", [7_600_000, 900_000], ids=["half more", "a quarter"])
def test_a_search_that_requests_would_feel_waits_until_memory_has_changed(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze_garbage()
    memory = Memory(monkeypatch)
    search = BoundedSearch(longest_s=30.0, clock=SystemClock())
    memory.blocks = 4_000_000
    first = old_garbage()
    search.run()
    assert first() is not None
    # What comes later is searched; what was excluded is not.
    memory.blocks = 4_100_000
    later = old_garbage()
    search.run()
    assert later() is None
    assert first() is not None
    memory.blocks = blocks
    search.run()
    assert first() is None


class Search(SystemClock):
    """Each search of the young generation takes as long as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time_s = 0.0
        self.took_s = 0.0
        self.generations: list[int] = []
        monkeypatch.setattr(gc, "collect", self.collect)

    def now_s(self) -> float:
        return self.time_s

    def collect(self, generation: int) -> None:
        self.generations.append(generation)
        self.time_s += self.took_s


@in_virtual_time
async def test_new_objects_are_searched_the_more_often_the_longer_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = Search(monkeypatch)
    async with TaskScope("test") as scope:
        scope.start(collect_young(search), "collect young")
        await asyncio.sleep(10.5)
        assert search.generations == [0] * 10
        search.took_s = 0.1
        await asyncio.sleep(10.0)
        busy = len(search.generations)
        assert 400 < busy < 520
        search.took_s = 0.0
        await asyncio.sleep(10.0)
        assert len(search.generations) < busy + 20


def test_objects_of_the_start_are_frozen() -> None:
    # The suite has frozen what it collected.
    gc.unfreeze()
    freeze_garbage()
    assert gc.get_freeze_count() > 10_000


def test_a_search_that_would_take_too_long_is_not_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    freeze_garbage()
    before = gc.get_freeze_count()
    many = [[number] for number in range(10_000)]
    garbage = weakref.ref(Ring())
    search = BoundedSearch(longest_s=0.001, clock=SystemClock())
    with caplog.at_level(logging.WARNING):
        search.run()
    assert garbage() is not None
    assert gc.get_freeze_count() >= before + len(many)
    assert "objects are excluded from searches for garbage" in caplog.text
    # What comes later is searched again.
    later = weakref.ref(Ring())
    search.run()
    assert later() is None


class SlowMachine(SystemClock):
    """A second passes between two looks at the clock."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        self.time_s += 1.0
        return self.time_s


def test_how_long_a_search_took_decides_on_the_next_one() -> None:
    freeze_garbage()
    many = [[number] for number in range(10_000)]
    search = BoundedSearch(longest_s=0.5, clock=SlowMachine())
    first = weakref.ref(Ring())
    search.run()
    assert first() is None
    second = weakref.ref(Ring())
    search.run()
    assert second() is not None
    assert many


def test_a_slow_search_of_few_objects_puts_no_other_one_off() -> None:
    freeze_garbage()
    search = BoundedSearch(longest_s=0.5, clock=SlowMachine())
    search.run()
    garbage = weakref.ref(Ring())
    search.run()
    assert garbage() is None


async def test_a_daemon_searches_by_its_session_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    given: list[float] = []
    searched = asyncio.Event()

    class Daemon:
        async def run(self) -> int:
            await searched.wait()
            return 0

    async def collect(session_timeout_s: float, _: object) -> None:
        given.append(session_timeout_s)
        await asyncio.Event().wait()

    async def collect_new(_: object) -> None:
        searched.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(start, "build_daemon", lambda *_: Daemon())
    monkeypatch.setattr(start, "collect_periodically", collect)
    monkeypatch.setattr(start, "collect_young", collect_new)
    monkeypatch.setattr(start, "switch_often", lambda: None)
    async with asyncio.timeout(10):
        assert await start._run(settings) == 0
    assert given == [settings.metadata.session_timeout_s]
