"""Any order of reads, writes, cuts, expiries and time, in memory."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.lab.time import VirtualLoop
from tests.contract.backends import MemoryBackend
from tests.store.caches.interleavings import EVERY_PATH, MIX, Interleaving, Step

steps = st.builds(Step, st.sampled_from(MIX), st.sampled_from(EVERY_PATH))


@settings(deadline=None, max_examples=200)
@given(st.lists(steps, min_size=5, max_size=60))
def test_no_answer_is_older_than_an_event_before_it_and_each_cached_value_is_current(
    script: list[Step],
) -> None:
    async def run() -> None:
        backend = MemoryBackend()
        try:
            await Interleaving(backend).run(script)
        finally:
            await backend.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())
