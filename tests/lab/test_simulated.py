"""The simulated data plane: who may act, when, and what it shows."""

import random
from collections.abc import AsyncIterator, Mapping

import pytest

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.dataplane.bundles.interface import DataPlane, Unloaded
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused
from broker_ctl.lab.simulated import MemoryServeLog, SimulatedDataPlane
from broker_ctl.lab.time import ManualClock
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.workload.scenario_workload import ScenarioWorkload
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.tasks import TaskScope
from tests.support.pipeline.small_scenarios import STRONG, bundles_of, small
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("public", "default")
(WHOLE,) = Ring.even(NAMESPACE, 1).bundles
LEFT, RIGHT = Ring.even(NAMESPACE, 2).bundles
STEADY = Workload.named("steady", 1)
TICK_S = 0.002
FULL = STRONG.times(0.8)


def positions(bundle: Bundle) -> set[int]:
    return {topic.position for topic in STEADY.topics_in(bundle)}


class CountingClock(ManualClock):
    """Counts ticks: each of them looks at the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.step_s = 0.0

    def now_s(self) -> float:
        self.looks += 1
        self.time_s += self.step_s
        return super().now_s()


class Broker:
    """A data plane on a clock that the test moves, and what it did."""

    def __init__(self, workload: Workload = STEADY, topic_close_s: float = 0.0) -> None:
        self.clock = CountingClock()
        self.log = MemoryServeLog(10_000)
        self.plane = SimulatedDataPlane(
            workload,
            self.clock,
            broker_id="b1:8080",
            rng=random.Random(1),
            serve_log=self.log,
            tick_s=TICK_S,
            topic_close_s=topic_close_s,
        )

    async def acts(self) -> Mapping[int, set[int]]:
        """The hashes that act from now on, by token; several ticks."""
        self.log.events.clear()
        enough = self.clock.looks + 20
        await eventually(lambda: self.clock.looks > enough, poll_s=TICK_S)
        return {act.token: set(act.hashes) for act in self.log.events}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    await broker.plane.start()
    broker.plane.grant(1, broker.clock.time_s + 10)
    yield broker
    await broker.plane.stop()


async def test_the_simulated_plane_implements_the_protocol(broker: Broker) -> None:
    plane: DataPlane = broker.plane
    await plane.load(WHOLE, 1)
    assert await plane.loaded() == {WHOLE: 1}


async def test_every_topic_of_a_loaded_bundle_acts_under_its_token(broker: Broker) -> None:
    await broker.plane.load(LEFT, 7)
    await broker.plane.load(RIGHT, 8)
    assert await broker.acts() == {7: positions(LEFT), 8: positions(RIGHT)}
    act = broker.log.events[0]
    assert (act.t_ns, act.broker) == (int(broker.clock.time_s * 1e9), "b1:8080")


async def test_no_act_starts_at_or_after_the_deadline(broker: Broker) -> None:
    await broker.plane.load(WHOLE, 1)
    broker.clock.time_s += 9.999
    assert set(await broker.acts()) == {1}
    broker.clock.time_s += 0.001
    assert await broker.acts() == {}
    broker.plane.grant(1, broker.clock.time_s + 1)
    assert set(await broker.acts()) == {1}


async def test_authority_can_be_withdrawn_at_once(broker: Broker) -> None:
    await broker.plane.load(WHOLE, 1)
    broker.plane.grant(1, 0)
    assert await broker.acts() == {}


async def test_nothing_acts_before_the_first_grant() -> None:
    broker = Broker()
    await broker.plane.start()
    await broker.plane.load(WHOLE, 1)
    assert await broker.acts() == {}
    assert await broker.plane.topics(WHOLE) == (), "opening a topic is an act too"
    await broker.plane.stop()


async def test_a_deadline_that_passes_within_a_tick_ends_the_tick(broker: Broker) -> None:
    """On a busy machine time passes between the acts of one tick."""
    for token, bundle in enumerate(Ring.even(NAMESPACE, 32).bundles, 1):
        await broker.plane.load(bundle, token)
    broker.clock.step_s = 0.01
    deadline_s = broker.clock.time_s + 1
    broker.plane.grant(1, deadline_s)
    assert await broker.acts() != {}
    await eventually(lambda: broker.clock.time_s > deadline_s + 1)
    assert max(act.t_ns for act in broker.log.events) < deadline_s * 1e9


async def test_an_old_token_is_refused_and_the_new_owner_serves_on(broker: Broker) -> None:
    await broker.plane.load(LEFT, 5)
    for bundle in (LEFT, WHOLE, LEFT.cut((5,))[0]):
        with pytest.raises(DataPlaneFenced):
            await broker.plane.load(bundle, 4)
    assert await broker.acts() == {5: positions(LEFT)}


async def test_split_and_merge_keep_the_topics_open(broker: Broker) -> None:
    await broker.plane.load(WHOLE, 1)
    await broker.acts()
    names = set(await broker.plane.topics(WHOLE))
    assert len(names) == 240
    broker.plane.grant(1, 0)  # from here on no client opens a topic again
    await broker.plane.split(WHOLE, {LEFT: 2, RIGHT: 2})
    left, right = await broker.plane.topics(LEFT), await broker.plane.topics(RIGHT)
    assert (set(left) | set(right), len(left) + len(right)) == (names, 240)
    await broker.plane.merge((LEFT, RIGHT), WHOLE, 3)
    assert set(await broker.plane.topics(WHOLE)) == names
    await broker.plane.renew(WHOLE, 4)
    assert set(await broker.plane.topics(WHOLE)) == names
    with pytest.raises(DataPlaneRefused):
        await broker.plane.topics(LEFT)


async def test_unload_says_how_many_topics_it_closed(broker: Broker) -> None:
    await broker.plane.load(LEFT, 1)
    await broker.plane.load(RIGHT, 2)
    await broker.acts()
    assert await broker.plane.unload(LEFT, 5) == Unloaded(len(positions(LEFT)), is_confirmed=True)
    assert await broker.plane.unload(LEFT, 5) == Unloaded(0, is_confirmed=True)
    assert await broker.acts() == {2: positions(RIGHT)}


async def test_unload_and_fence_mean_all_that_overlaps(broker: Broker) -> None:
    for stop in (lambda: broker.plane.unload(WHOLE, 5), lambda: broker.plane.fence(WHOLE)):
        await broker.plane.load(LEFT, 1)
        await broker.plane.load(RIGHT, 1)
        await stop()
        assert await broker.plane.loaded() == {}


async def test_an_unload_past_its_deadline_is_not_confirmed_and_serves_what_is_left() -> None:
    broker = Broker(topic_close_s=0.001)
    await broker.plane.start()
    broker.plane.grant(1, broker.clock.time_s + 100)
    await broker.plane.load(WHOLE, 1)
    await broker.acts()
    async with TaskScope("test") as tasks:
        unload = tasks.start(broker.plane.unload(WHOLE, 5), "unload")
        await eventually(lambda: len(broker.log.events[-1].hashes) < 230, poll_s=TICK_S)
        broker.clock.time_s += 6
        done = await unload
    left = (await broker.acts())[1]
    assert not done.is_confirmed
    assert 0 < done.topics_closed == 240 - len(left)
    assert set(await broker.plane.loaded()) == {WHOLE}
    # To serve on, the owner loads it again; to get rid of it, it fences.
    await broker.plane.load(WHOLE, 1)
    assert (await broker.acts())[1] == positions(WHOLE)
    await broker.plane.fence(WHOLE)
    assert await broker.acts() == {}
    await broker.plane.stop()


async def test_a_bundle_that_is_loaded_again_ends_its_unload() -> None:
    broker = Broker(topic_close_s=0.001)
    await broker.plane.start()
    broker.plane.grant(1, broker.clock.time_s + 100)
    await broker.plane.load(WHOLE, 1)
    await broker.acts()
    async with TaskScope("test") as tasks:
        unload = tasks.start(broker.plane.unload(WHOLE, 5), "unload")
        await eventually(lambda: len(broker.log.events[-1].hashes) < 240, poll_s=TICK_S)
        await broker.plane.load(WHOLE, 2)
        assert not (await unload).is_confirmed
    assert await broker.acts() == {2: positions(WHOLE)}
    await broker.plane.stop()


async def test_a_topic_that_is_unloaded_comes_back_with_its_clients(broker: Broker) -> None:
    await broker.plane.load(WHOLE, 1)
    await broker.acts()
    name = STEADY.topics[0].name
    broker.plane.grant(1, 0)
    await broker.plane.unload_topic(name)
    assert name not in await broker.plane.topics(WHOLE)
    with pytest.raises(DataPlaneRefused, match="is not loaded"):
        await broker.plane.unload_topic(name)
    broker.plane.grant(1, broker.clock.time_s + 10)
    await broker.acts()
    assert name in await broker.plane.topics(WHOLE)


async def test_a_restart_forgets_everything_and_is_another_instance(broker: Broker) -> None:
    await broker.plane.load(WHOLE, 5)
    first = broker.plane.instance_id
    await broker.plane.start()
    assert broker.plane.instance_id != first
    assert await broker.plane.loaded() == {}
    await broker.plane.load(WHOLE, 4)
    assert await broker.acts() == {}, "authority is forgotten too"


async def test_equal_draws_give_equal_instances() -> None:
    one, other = Broker(), Broker()
    for broker in (one, other):
        await broker.plane.start()
        await broker.plane.stop()
    assert one.plane.instance_id == other.plane.instance_id != ""


async def test_statistics_are_the_workloads_and_nothing_without_authority(broker: Broker) -> None:
    await broker.plane.load(LEFT, 1)
    assert await broker.plane.statistics() == {LEFT: STEADY.stats(LEFT, 0)}
    broker.plane.grant(1, 0)
    assert await broker.plane.statistics() == {LEFT: BundleStats()}
    assert (await broker.plane.usage()).cpu.percent == 0


async def test_the_workload_moves_with_the_clock() -> None:
    workload = Workload.named("skewed", 1)
    broker = Broker(workload)
    await broker.plane.start()
    broker.plane.grant(1, broker.clock.time_s + 1000)
    await broker.plane.load(WHOLE, 1)
    broker.clock.time_s += 150
    assert await broker.plane.statistics() == {WHOLE: workload.stats(WHOLE, 150)}
    await broker.plane.stop()


@pytest.mark.parametrize(
    ("capacity", "percent"),
    [
        (Capacity(msg_rate=48_000, bytes_s=1e12), 50),
        (Capacity(msg_rate=1e12, bytes_s=240 * 102_400 * 4), 25),
        (Capacity(msg_rate=1, bytes_s=1), 100),
    ],
)
async def test_usage_is_the_larger_share_of_the_capacity(
    capacity: Capacity, percent: float
) -> None:
    clock = ManualClock()
    plane = SimulatedDataPlane(
        STEADY, clock, broker_id="b", rng=random.Random(1), capacity=capacity
    )
    await plane.start()
    plane.grant(1, clock.time_s + 10)
    await plane.load(WHOLE, 1)
    usage = await plane.usage()
    assert usage.cpu.percent == pytest.approx(percent)
    assert usage.bandwidth_in.usage == pytest.approx(240 * 51_200 * 8 / 1000)
    await plane.stop()


async def test_a_scenario_says_what_its_brokers_can_take() -> None:
    clock = ManualClock()
    workload = ScenarioWorkload(small([60, 20], ["a", "b"], brokers={"a": STRONG, "b": FULL}))
    plane = SimulatedDataPlane(workload, clock, broker_id="b", rng=random.Random(1))
    await plane.start()
    plane.grant(1, clock.time_s + 10)
    await plane.load(bundles_of(2)[0], 1)
    assert (await plane.usage()).cpu.percent == pytest.approx(75.0)
    await plane.stop()


async def test_topics_without_traffic_do_not_act() -> None:
    broker = Broker(Workload.named("quiet", 1))
    await broker.plane.start()
    broker.plane.grant(1, broker.clock.time_s + 10)
    await broker.plane.load(WHOLE, 1)
    assert await broker.acts() == {}
    assert (await broker.plane.statistics())[WHOLE].topics == 240
    await broker.plane.stop()


async def test_the_traffic_of_a_bundle_is_that_of_its_open_topics(broker: Broker) -> None:
    await broker.plane.load(LEFT, 1)
    await broker.acts()
    of_each = await broker.plane.topic_statistics(LEFT)
    assert set(of_each) == set(await broker.plane.topics(LEFT))
    whole = (await broker.plane.statistics())[LEFT]
    assert sum(of_each.values(), BundleStats()) == whole
    closed = min(of_each)
    await broker.plane.unload_topic(closed)
    assert await broker.plane.topic_statistics(LEFT) == {
        name: stats for name, stats in of_each.items() if name != closed
    }
    await broker.acts()
    broker.plane.grant(1, 0)
    idle = await broker.plane.topic_statistics(LEFT)
    assert idle == dict.fromkeys(of_each, BundleStats(topics=1))
    with pytest.raises(DataPlaneRefused):
        await broker.plane.topic_statistics(RIGHT)
