"""Garbage in cycles goes, late."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from broker_ctl.daemon.lifecycle.gc_tuning import collect_periodically, freeze_garbage
from broker_ctl.tasks import TaskScope
from broker_ctl.testing.virtual_time import in_virtual_time


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    # The suite has frozen what it collected.
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()


@in_virtual_time
async def test_a_reference_cycle_is_collected_within_the_hour() -> None:
    freeze_garbage()
    garbage = weakref.ref(Ring())
    assert garbage() is not None
    async with TaskScope("test") as scope:
        scope.start(collect_periodically(), "collect")
        await asyncio.sleep(3600.0)
    assert garbage() is None


def test_objects_of_the_start_are_frozen() -> None:
    freeze_garbage()
    assert gc.get_freeze_count() > 10_000
