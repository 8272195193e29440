import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.monitoring.bundle_data_store import read_bundle_data
from broker_ctl.balancer.statistics import unevenness
from broker_ctl.codec import decode_object, encode
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.errors import BundleGone, InvalidName, NoBroker, NoLeader, PeerRefused
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.in_memory_peers import BEFORE
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.time.waiting import PATIENCE_S, eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
HOT = RING.bundles[0]
HALVES = "range_equally_divide"
BALANCING = replace(
    QUICK,
    shedding=ThresholdShedder(),
    splitting=SplitRules(max_bandwidth_bytes=2.5e8, max_msg_rate=0, cool_down_s=0.2),
)


def skewed(bundle: Bundle) -> BundleStats:
    """400 MB/s in the hot bundle, or as much of it as a child has; 50 MB/s in the others."""
    if not bundle.overlaps(HOT):
        return even_traffic(5e7)
    return even_traffic(4e8 * (bundle.range.high - bundle.range.low) / 2**29)


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C, traffic=skewed) as running:
        await running.create_namespace(8)
        yield running


@pytest.fixture
async def balancer(cluster: LeaderCluster) -> AsyncIterator[LoadBalancer]:
    balancer = LoadBalancer(cluster.dependencies(A))
    balancer.start()
    yield balancer
    balancer.close()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    async with TaskScope("test") as scope:
        yield scope


async def lead(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> asyncio.Task[None]:
    work = tasks.start(balancer.lead(await cluster.elect(A)), "lead")
    await eventually(lambda: balancer.is_leading)
    return work


async def test_a_skewed_cluster_is_split_and_evened_out(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    cluster.rules = BALANCING
    for bundle in RING.bundles:
        await cluster.brokers[A].acquire(bundle)
    await lead(cluster, balancer, tasks)

    def is_even() -> bool:
        loads = [
            sum(skewed(bundle).throughput for bundle in broker.serving)
            for broker in cluster.brokers.values()
        ]
        return max(loads) < 2 * min(loads)

    await eventually(is_even)
    assert HOT not in {bundle for b in cluster.brokers.values() for bundle in b.serving}
    assert cluster.serving_checker.faults == []
    assert balancer.overview()["splits"] >= 1
    # A broker serves a bundle before the leader has heard of it.
    await eventually(lambda: balancer.overview()["unloads"] >= 2)


async def test_an_overview_is_plain_json_with_what_was_promised(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await cluster.brokers[B].acquire(RING.bundles[1])
    await lead(cluster, balancer, tasks)

    await eventually(lambda: balancer.overview()["bundle_count"] == 2)
    overview = decode_object(encode(dict(balancer.overview())))
    assert overview["leader"] == A
    assert overview["epoch"] == 1
    assert overview["throughput_imbalance"] == pytest.approx(4e8 / 1.5e8)
    assert balancer.term is not None
    assert unevenness(balancer.term)["throughput"] == overview["throughput_imbalance"]
    assert [row["broker"] for row in overview["brokers"]] == [A, B, C]
    first = overview["brokers"][0]
    assert first["throughput_bytes_per_s"] == pytest.approx(4e8)
    assert (first["bundles"], first["is_draining"]) == (1, False)
    assert (first["version"], first["started_ms"]) == ("0.1.0", 1)
    assert overview["bundles"][0] == {
        "bundle": str(HOT),
        "owner": A,
        "msg_per_s": pytest.approx(4e4),
        "throughput_bytes_per_s": pytest.approx(4e8),
        "topics": 20,
    }
    assert (overview["moves"], overview["paused"], overview["dry_run"]) == ([], False, False)


async def test_a_balancer_that_does_not_lead_refuses_every_request(balancer: LoadBalancer) -> None:
    with pytest.raises(NoLeader):
        await balancer.place(HOT)
    with pytest.raises(NoLeader):
        balancer.overview()
    with pytest.raises(NoLeader):
        balancer.explain(A)
    with pytest.raises(NoLeader):
        await balancer.move(HOT, B)
    with pytest.raises(NoLeader):
        await balancer.split(HOT, HALVES, (), is_unloading=False)
    with pytest.raises(NoLeader):
        await balancer.merge(RING.bundles[0], RING.bundles[1])
    with pytest.raises(NoLeader):
        await balancer.special_bundle(NAMESPACE, "HOT")


async def test_lookups_are_placed(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await lead(cluster, balancer, tasks)
    chosen = {await balancer.place(bundle) for bundle in RING.bundles[:3]}
    assert chosen == {A, B, C}
    cluster.has_authority = False
    with pytest.raises(NoLeader):
        await balancer.place(HOT)


async def test_an_operator_moves_a_bundle_and_it_is_served_there(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await lead(cluster, balancer, tasks)
    reply = await balancer.move(HOT, B)
    assert reply == {"bundle": str(HOT), "from": A, "to": B}
    assert cluster.serving_checker.servers_of(HOT) == [B]
    assert (await balancer.move(HOT, B))["to"] == B
    assert (await balancer.move(RING.bundles[1], C))["from"] is None
    assert cluster.serving_checker.servers_of(RING.bundles[1]) == [C]
    rows = balancer.overview()["decisions"]
    assert [(row["kind"], row["reason"], row["result"]) for row in rows] == [
        ("assign", "admin", "done"),
        ("transfer", "admin", "done"),
    ]


async def test_an_operator_learns_why_a_bundle_was_not_moved(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await lead(cluster, balancer, tasks)
    with pytest.raises(NoBroker, match="nobody:1"):
        await balancer.move(HOT, "nobody:1")
    with pytest.raises(BundleGone):
        await balancer.move(HOT.cut((2**28,))[0], B)
    cluster.peers.refusals[B, "prepare"].append(PeerRefused("Draining", "on its way down"))
    with pytest.raises(PeerRefused, match="on its way down"):
        await balancer.move(HOT, B)
    assert cluster.serving_checker.servers_of(HOT) == [A]


async def test_an_operator_who_goes_away_does_not_stop_the_move(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await lead(cluster, balancer, tasks)
    cut = cluster.peers.cut_at("receive", BEFORE)
    asking = tasks.start(balancer.move(HOT, B), "ask", is_joined=True)
    await cut.reached.wait()
    asking.cancel()
    cut.resumed.set()
    await eventually(lambda: cluster.serving_checker.servers_of(HOT) == [B])


# Splits and merges.


def decided(balancer: LoadBalancer) -> list[tuple[str, str, str]]:
    rows = balancer.overview()["decisions"]
    return [(row["kind"], row["reason"], row["result"]) for row in reversed(rows)]


async def test_an_operator_splits_a_bundle_that_stays_or_goes_where_there_is_room(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    for bundle in RING.bundles[:2]:
        await cluster.brokers[A].acquire(bundle)
    await lead(cluster, balancer, tasks)
    await balancer.split(RING.bundles[1], HALVES, (), is_unloading=False)
    assert len(cluster.brokers[A].serving) == 3
    reply = await balancer.split(HOT, HALVES, (), is_unloading=True)
    children = [Bundle.parse(text) for text in reply["children"]]
    assert children == list(HOT.cut((2**28,)))
    # Both of 200 MB/s; what is left at A is 50 MB/s.
    assert {await cluster.owner(child) for child in children} == {B, C}
    assert decided(balancer) == [
        ("split", "admin", "done"),
        ("split", "admin", "done"),
        *[("transfer", "new_part", "done")] * 2,
    ]
    assert cluster.serving_checker.faults == []


async def test_an_unowned_bundle_is_placed_before_it_is_split(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await lead(cluster, balancer, tasks)
    reply = await balancer.split(HOT, HALVES, (2**27,), is_unloading=False)
    assert len(reply["children"]) == 2
    assert decided(balancer)[0] == ("assign", "admin", "done")
    with pytest.raises(BundleGone):
        await balancer.split(HOT, HALVES, (), is_unloading=False)


async def test_an_operator_finds_the_hottest_bundle_of_all_brokers(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(RING.bundles[5])
    await cluster.brokers[B].acquire(HOT)
    await lead(cluster, balancer, tasks)

    async def is_found() -> bool:
        return await balancer.special_bundle(NAMESPACE, "HOT") == HOT

    await eventually(is_found)


@pytest.mark.parametrize(
    ("owners", "home"), [((A, A), A), ((A, B), A), ((B, None), B), ((None, C), C)]
)
async def test_an_operator_merges_neighbours_of_any_owners(
    cluster: LeaderCluster,
    balancer: LoadBalancer,
    tasks: TaskScope,
    owners: tuple[str | None, str | None],
    home: str,
) -> None:
    left, right = RING.bundles[2:4]
    for broker_id, bundle in zip(owners, (left, right), strict=True):
        if broker_id is not None:
            await cluster.brokers[broker_id].acquire(bundle)
    await lead(cluster, balancer, tasks)
    whole = left.joined(right)
    assert await balancer.merge(left, right) == {"bundle": str(whole), "owner": home}
    assert cluster.serving_checker.servers_of(whole) == [home]
    assert decided(balancer)[-1] == ("merge", "admin", "done")
    assert cluster.serving_checker.faults == []
    with pytest.raises(BundleGone):
        await balancer.merge(left, right)


async def test_an_operator_merges_what_nobody_owns(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await lead(cluster, balancer, tasks)
    left, right = RING.bundles[2:4]
    reply = await balancer.merge(left, right)
    assert cluster.serving_checker.servers_of(left.joined(right)) == [reply["owner"]]


async def test_an_operator_learns_why_nothing_was_merged(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    left, right = RING.bundles[2:4]
    await cluster.brokers[A].acquire(left)
    await cluster.brokers[B].acquire(right)
    await lead(cluster, balancer, tasks)
    with pytest.raises(InvalidName, match="does not begin where"):
        await balancer.merge(right, left)
    cluster.peers.refusals[A, "prepare"].append(PeerRefused("Draining", "on its way down"))
    with pytest.raises(PeerRefused, match="on its way down"):
        await balancer.merge(left, right)
    assert cluster.serving_checker.servers_of(right) == [B]


async def test_a_subject_is_explained_with_its_decisions(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await lead(cluster, balancer, tasks)
    await balancer.move(HOT, B)
    await eventually(lambda: balancer.overview()["bundle_count"] == 1)
    explanation = balancer.explain(str(HOT))
    assert explanation["bundle"] == str(HOT)
    assert explanation["since_unload_s"] is not None
    assert [row["kind"] for row in explanation["decisions"]] == ["transfer"]
    assert [row["kind"] for row in balancer.explain(B)["decisions"]] == ["transfer"]
    assert balancer.explain(C)["decisions"] == []
    assert balancer.explain(C)["slow"] is None
    with pytest.raises(InvalidName):
        balancer.explain("nobody:1")
    encode(dict(explanation))


async def test_a_leader_that_meets_a_newer_one_ends_quietly(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    work = await lead(cluster, balancer, tasks)
    await cluster.elect(B)
    # Its next write is refused: averages are written all the time.
    await asyncio.wait_for(asyncio.shield(work), PATIENCE_S)
    assert not balancer.is_leading
    assert work.exception() is None


async def test_corrupt_reports_are_counted_over_all_leadings(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[C].store.set(paths.load_report(C), b"torn")
    work = await lead(cluster, balancer, tasks)
    assert balancer.tally.corrupt_reports == 1
    work.cancel()
    await asyncio.wait([work])
    assert (balancer.tally.corrupt_reports, balancer.term) == (1, None)
    await lead(cluster, balancer, tasks)
    assert balancer.tally.corrupt_reports == 2


async def test_leading_writes_averages_that_the_next_leading_starts_from(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    work = await lead(cluster, balancer, tasks)
    store = cluster.brokers[A].store

    async def is_written() -> bool:
        return HOT in await read_bundle_data(store)

    await eventually(is_written)
    work.cancel()
    await asyncio.wait([work])
    assert not balancer.is_leading


async def test_the_controller_leads_again_after_it_has_led(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    first = await lead(cluster, balancer, tasks)
    first.cancel()
    await asyncio.wait([first])
    await lead(cluster, balancer, tasks)
    assert balancer.overview()["epoch"] == 2


async def test_a_name_that_is_not_a_bundle_is_refused_an_explanation(
    cluster: LeaderCluster, balancer: LoadBalancer, tasks: TaskScope
) -> None:
    await cluster.brokers[A].acquire(HOT)
    await lead(cluster, balancer, tasks)
    await eventually(lambda: balancer.overview()["bundle_count"] == 1)
    assert balancer.explain(B)["promised"] == []
    with pytest.raises(InvalidName, match="neither a live broker nor a bundle"):
        balancer.explain("10.0.0.1:8080")
    with pytest.raises(InvalidName, match="is not a bundle of its namespace"):
        balancer.explain(f"{NAMESPACE}/0x00000000_0xffffffff")
