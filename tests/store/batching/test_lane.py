"""When batches leave, on a virtual clock."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.lab.time import VirtualLoop, in_virtual_time
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.lane import FixedWindow, Lane

DELAY_S = 0.005
ADAPTIVE = BatchRules(max_operations=4, max_in_flight=2)
FIXED = BatchRules(is_adaptive=False, max_operations=4, max_in_flight=2)
MOST_BYTES = 100.0


@dataclass
class Track:
    """A lane, with the batches that left it and their times."""

    rules: BatchRules
    is_eager: bool = False
    is_settling: bool = False
    left: list[tuple[float, list[str]]] = field(default_factory=list)
    put_s: dict[str, float] = field(default_factory=dict)
    waits_s: list[float] = field(default_factory=list)
    _unanswered: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        window = FixedWindow(self.rules.max_in_flight, self.rules.max_operations)
        self.lane: Lane[Any] = Lane(
            self.rules,
            MOST_BYTES,
            window,
            is_eager=self.is_eager,
            is_settling=lambda: self.is_settling,
            cut=self._cut,
            send=self._send,
        )
        self._begin_s = self.now_s()

    @staticmethod
    def now_s() -> float:
        return asyncio.get_running_loop().time()

    @property
    def age_s(self) -> float:
        return round(self.now_s() - self._begin_s, 6)

    def put(self, *names: str, size_bytes: float = 1.0) -> None:
        for name in names:
            self.put_s[name] = self.now_s()
            self.lane.put(SimpleNamespace(name=name, size_bytes=size_bytes, weight=1))

    def batches(self) -> list[str]:
        return ["".join(names) for _, names in self.left]

    def reply(self) -> None:
        """The oldest batch is answered."""
        self.lane.on_reply(self._unanswered.popleft())

    def _cut(self, queue: deque[Any], most: int) -> list[Any]:
        batch: list[Any] = []
        while queue and len(batch) < most:
            entry = queue.popleft()
            if entry.name.startswith("-"):  # given up
                self.lane.discard(entry)
            else:
                batch.append(entry)
        return batch

    def _send(self, batch: list[Any]) -> None:
        assert batch
        self._unanswered.append(len(batch))
        assert self.lane.in_flight <= self.rules.max_in_flight
        self.left.append((self.age_s, [entry.name for entry in batch]))
        self.waits_s += [self.now_s() - self.put_s[entry.name] for entry in batch]


@in_virtual_time
async def test_on_a_quiet_lane_what_is_asked_in_one_turn_leaves_together_and_at_once() -> None:
    track = Track(ADAPTIVE)
    track.put("a", "b")
    assert track.left == []
    await asyncio.sleep(0)
    assert track.left == [(0.0, ["a", "b"])]


@in_virtual_time
async def test_while_a_batch_is_on_its_way_the_next_leaves_on_its_reply() -> None:
    track = Track(ADAPTIVE)
    track.put("a")
    await asyncio.sleep(0.001)
    track.put("b")
    await asyncio.sleep(0.001)
    track.put("c")
    assert track.batches() == ["a"]
    track.reply()
    assert track.left[1:] == [(0.002, ["b", "c"])]


@in_virtual_time
async def test_a_waiting_batch_leaves_on_a_reply_to_the_neighbour_lane() -> None:
    track, other = Track(ADAPTIVE), Track(ADAPTIVE)
    other.lane.neighbour = track.lane
    track.put("a")
    other.put("x")
    await asyncio.sleep(0)
    track.put("b", "c")
    await asyncio.sleep(0.001)
    assert track.batches() == ["a"]
    other.reply()
    assert track.batches() == ["a", "bc"]
    # A reply sends nothing of a lane in which nothing waits.
    other.put("y")
    await asyncio.sleep(0)
    other.reply()
    assert track.batches() == ["a", "bc"]


@in_virtual_time
async def test_an_urgent_lane_waits_for_no_reply_until_three_batches_are_on_their_way() -> None:
    track = Track(BatchRules(max_operations=4, max_in_flight=8), is_eager=True)
    for name in "abcde":
        track.put(name)
        await asyncio.sleep(0)
    assert track.batches() == ["a", "b", "c"]
    track.reply()
    assert track.batches() == ["a", "b", "c", "de"]


@in_virtual_time
async def test_while_callers_are_still_to_be_woken_requests_wait_for_one_another() -> None:
    track = Track(BatchRules(max_delay_s=0.005), is_eager=True, is_settling=True)
    # Nothing is on its way, and no reply would come.
    track.put("a")
    await asyncio.sleep(0)
    assert track.batches() == ["a"]
    track.put("b")
    await asyncio.sleep(0.001)
    assert not track.lane.is_open
    track.put("c")
    track.lane.on_neighbour_reply()
    assert track.batches() == ["a"]
    track.reply()
    assert track.batches() == ["a", "bc"]
    track.put("d")
    await asyncio.sleep(0.004)
    assert track.batches() == ["a", "bc"]
    await asyncio.sleep(0.002)
    assert track.batches() == ["a", "bc", "d"]
    # Two are on their way: the reply to one is not the last chance.
    track.put("e")
    track.reply()
    assert track.batches() == ["a", "bc", "d"]
    track.is_settling = False
    assert track.lane.is_open is False
    track.reply()
    assert track.batches() == ["a", "bc", "d", "e"]


@in_virtual_time
async def test_of_the_requests_of_a_turn_two_may_leave_alone() -> None:
    track = Track(BatchRules(max_operations=4, max_in_flight=8), is_eager=True)
    lane = track.lane
    for _ in range(2):
        assert lane.is_open
        lane.enter_alone()
    assert not lane.is_open
    await asyncio.sleep(0)
    assert lane.is_open
    track.put("a")
    assert not lane.is_open, "a request waits: later ones go behind it"
    await asyncio.sleep(0)
    assert (lane.in_flight, lane.operations) == (3, 3)


@in_virtual_time
async def test_in_a_bulk_lane_a_request_leaves_alone_only_where_nothing_is_on_its_way() -> None:
    track = Track(ADAPTIVE)
    assert track.lane.is_open
    track.lane.enter_alone()
    await asyncio.sleep(0)
    assert not track.lane.is_open
    track.lane.on_reply(1)
    assert track.lane.is_open
    assert not Track(FIXED).lane.is_open


@in_virtual_time
async def test_a_waiting_batch_leaves_when_its_oldest_request_has_waited_the_delay() -> None:
    track = Track(ADAPTIVE)
    track.put("a")
    await asyncio.sleep(0.001)
    track.put("b")
    await asyncio.sleep(0.004)
    track.put("c")
    await asyncio.sleep(0.002)
    assert track.left[1:] == [(0.006, ["b", "c"])]


@in_virtual_time
async def test_a_full_batch_leaves_at_once() -> None:
    track = Track(ADAPTIVE)
    track.put("a")
    await asyncio.sleep(0.001)
    track.put(*"bcde")
    await asyncio.sleep(0)
    assert track.left[1:] == [(0.001, ["b", "c", "d", "e"])]
    track.reply()
    track.put("f", size_bytes=MOST_BYTES)
    await asyncio.sleep(0)
    assert track.batches() == ["a", "bcde", "f"]


@in_virtual_time
async def test_beyond_the_bound_every_request_waits_for_a_reply() -> None:
    for rules in (ADAPTIVE, FIXED):
        track = Track(rules)
        track.put(*"abcd")
        await asyncio.sleep(0)
        track.put(*"efgh")
        await asyncio.sleep(0)
        assert track.batches() == ["abcd", "efgh"]
        track.put(*"ijklm")
        await asyncio.sleep(1.0)
        assert track.batches() == ["abcd", "efgh"]
        track.reply()
        assert track.batches() == ["abcd", "efgh", "ijkl"]
        track.reply()
        assert track.batches() == ["abcd", "efgh", "ijkl", "m"]


@in_virtual_time
async def test_with_a_fixed_delay_nothing_leaves_at_once_nor_on_a_reply() -> None:
    track = Track(FIXED)
    track.put("a")
    await asyncio.sleep(0.004)
    assert track.left == []
    await asyncio.sleep(0.002)
    assert track.left == [(0.005, ["a"])]
    track.put("b")
    track.reply()
    await asyncio.sleep(0.004)
    assert len(track.left) == 1
    await asyncio.sleep(0.002)
    assert track.left[1:] == [(0.011, ["b"])]


@in_virtual_time
async def test_with_a_fixed_delay_what_the_bound_held_back_leaves_with_the_reply() -> None:
    track = Track(FIXED)
    for name in "ab":
        track.put(name)
        await asyncio.sleep(0.006)
    track.put("c")
    await asyncio.sleep(0.006)
    track.put("d")
    assert track.batches() == ["a", "b"]
    track.reply()
    assert track.batches() == ["a", "b", "cd"]


@in_virtual_time
async def test_cancelled_requests_do_not_fill_a_batch() -> None:
    track = Track(BatchRules(max_operations=4, max_in_flight=3))
    track.put(*"abcd")
    await asyncio.sleep(0)
    track.put("-1", "-2", size_bytes=MOST_BYTES / 2)
    await asyncio.sleep(0)
    track.put(*"efghi")
    await asyncio.sleep(0)
    assert track.batches() == ["abcd", "efgh", "i"]
    track.reply()
    track.put("-3", "j", *"klmn", size_bytes=MOST_BYTES / 5)
    await asyncio.sleep(0)
    assert track.lane.in_flight == 3
    assert track.lane._size_bytes == MOST_BYTES / 5 * len(track.lane)


@in_virtual_time
async def test_no_timer_runs_on_an_empty_lane() -> None:
    track = Track(ADAPTIVE)
    track.put("a")
    await asyncio.sleep(0.001)
    track.put("b")
    track.reply()
    assert track.lane._timer is None
    assert track.lane._soon is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([1.0, 30.0, 120.0])),
        st.tuples(st.just("reply"), st.just(0.0)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.004, 0.006])),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(
    steps=STEPS,
    is_adaptive=st.booleans(),
    most=st.integers(1, 5),
    bound=st.integers(1, 3),
)
def test_everything_leaves_once_and_in_order_and_never_more_than_the_bound(
    steps: list[tuple[str, float]], is_adaptive: bool, most: int, bound: int
) -> None:
    rules = BatchRules(is_adaptive=is_adaptive, max_operations=most, max_in_flight=bound)

    async def scenario() -> None:
        track = Track(rules)
        lane, number = track.lane, 0
        for step, amount in steps:
            if step == "put":
                track.put(str(number), size_bytes=amount)
                number += 1
            elif step == "reply" and lane.in_flight:
                track.reply()
            elif step == "wait":
                await asyncio.sleep(amount)
        # Replies and the delay alone empty the lane.
        for _ in range(number + bound):
            await asyncio.sleep(DELAY_S * 1.01)
            if lane.in_flight:
                track.reply()
        assert [name for _, names in track.left for name in names] == [
            str(n) for n in range(number)
        ]
        assert lane.in_flight == 0
        assert lane._timer is None

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


@settings(deadline=None)
@given(steps=STEPS, is_adaptive=st.booleans(), most=st.integers(1, 5))
def test_nothing_waits_longer_than_the_delay_while_the_bound_allows_it(
    steps: list[tuple[str, float]], is_adaptive: bool, most: int
) -> None:
    rules = BatchRules(is_adaptive=is_adaptive, max_operations=most, max_in_flight=1000)

    async def scenario() -> None:
        track = Track(rules)
        for number, (step, amount) in enumerate(steps):
            if step == "put":
                track.put(str(number), size_bytes=amount)
            elif step == "wait":
                await asyncio.sleep(amount)
        await asyncio.sleep(DELAY_S * 1.01)
        assert len(track.lane) == 0
        assert max(track.waits_s, default=0.0) <= DELAY_S + 1e-9

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
