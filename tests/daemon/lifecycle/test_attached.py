"""The daemon beside a Pulsar cluster, whole: played brokers, real HTTP, a store in memory."""

import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker_ctl.attach import metadata_source
from broker_ctl.attach.attached import attached_rules
from broker_ctl.attach.lifecycle import AttachedDaemon, observing
from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.decisions import Reason, Split
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.planning.approval import ApprovalState, Fate
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.start import build_daemon
from broker_ctl.daemon.lifecycle.systemd import StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.settings.sources import load
from broker_ctl.store import paths
from broker_ctl.store.records.directives import PlanProgress, PlanRecord
from tests.support.clusters.attached import (
    AttachedRun,
    attached_run,
    attached_settings,
    attached_to,
)
from tests.support.clusters.foreign_cluster import (
    DYNAMIC,
    NAMESPACE,
    ForeignCluster,
    foreign_cluster,
)
from tests.support.pipeline.history_files import lines
from tests.support.time.waiting import PATIENCE_S, eventually

ACT = "pulsarAct=true"


@pytest.fixture
async def cluster() -> AsyncIterator[ForeignCluster]:
    async with foreign_cluster() as played:
        yield played


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as client:
        yield client


def counts(cluster: ForeignCluster) -> list[int]:
    return [len(broker.owned) for broker in cluster.brokers]


def results(run: AttachedRun) -> set[str]:
    rows = run.attached.balancer.overview()["decisions"] if run.is_leading else []
    return {row["result"] for row in rows}


async def test_a_skewed_load_is_levelled_by_transfers_to_their_destinations(
    cluster: ForeignCluster,
) -> None:
    assert counts(cluster) == [10, 1, 1]
    async with attached_run(cluster, ACT):
        await eventually(lambda: counts(cluster) == [4, 4, 4], what="four bundles each")
    assert len(cluster.asked) == 6
    assert all("/unload?destinationBroker=" in request for request in cluster.asked)


async def test_a_dry_run_reports_its_plan_and_changes_nothing(
    cluster: ForeignCluster,
) -> None:
    before = await cluster.tree()
    async with attached_run(cluster) as run:
        await eventually(lambda: "dry_run" in results(run), what="a plan that is only reported")
        plan = await run.attached.balancer.operations.plan(is_verbose=False)
    assert plan["held_back"] == "dry_run"
    assert plan["moves"] > 0
    assert plan["throughput_imbalance_before"] == pytest.approx(2.5)
    assert plan["throughput_imbalance_after"] < 2.5
    assert await cluster.tree() == before
    assert cluster.asked == []


async def test_looking_on_writes_nothing_at_all_not_even_under_broker_ctl(
    cluster: ForeignCluster,
) -> None:
    attached, _ = attached_to(cluster)
    async with observing(attached):
        await eventually(lambda: attached.balancer.is_leading, what="an onlooker")
        plan = await attached.balancer.operations.plan(is_verbose=False)
    assert plan["moves"] > 0
    assert await cluster.store.exists("/broker-ctl") is None


async def test_a_leader_does_not_act_while_the_cluster_balances_itself(
    cluster: ForeignCluster,
) -> None:
    cluster.running[DYNAMIC[0]] = "true"
    async with attached_run(cluster, ACT) as run:
        await eventually(lambda: "held_back" in results(run), what="decisions that are held back")
        why = await run.attached.cluster_balancer.blocked_reason()
        assert "loadBalancerSheddingEnabled=true" in why
        assert "update-dynamic-config --config loadBalancerSheddingEnabled --value false" in why
        assert cluster.asked == []


async def test_a_leader_acts_beside_the_balancer_of_the_cluster_if_configured(
    cluster: ForeignCluster,
) -> None:
    cluster.running[DYNAMIC[0]] = "true"
    async with attached_run(cluster, ACT, "pulsarActDespiteClusterBalancer=true"):
        await eventually(lambda: counts(cluster) == [4, 4, 4], what="four bundles each")


async def test_a_hot_bundle_is_split_where_the_cluster_is_asked_to(
    cluster: ForeignCluster,
) -> None:
    hot = min(cluster.brokers[1].owned)
    cluster.traffic[hot] = 8e7
    await cluster.report()
    reshaping = "loadBalancerAutoBundleSplitEnabled=true"
    async with attached_run(cluster, ACT, reshaping):
        split = f"/admin/v2/namespaces/{hot}/split?unload=false"
        algorithm = "splitAlgorithmName=topic_count_equally_divide"
        await eventually(
            lambda: any(f"PUT {split}&{algorithm}" == request for request in cluster.asked),
            what="a split of the hot bundle",
        )
        await eventually(lambda: cluster.owner(hot) is None, what="its end")


def test_bundles_are_never_merged_and_split_for_a_large_share_only_unless_it_is_asked_for() -> None:
    settings = load(None, {}, ["loadBalancerAutoBundleMergeEnabled=true"])
    rules = attached_rules(settings)
    assert rules.merging is None
    assert rules.splitting is not None
    assert rules.splitting.max_share_ratio == 0.5
    asked = load(None, {}, ["loadBalancerNamespaceBundleMaxBrokerPercentage=20"])
    assert attached_rules(asked).splitting == replace(rules.splitting, max_share_ratio=0.2)


async def test_a_migration_of_the_metadata_ends_the_acts_until_it_has_failed(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    await cluster.migrate("PREPARATION")
    async with attached_run(cluster, ACT) as run:
        await eventually(lambda: "held_back" in results(run), what="decisions that are held back")
        status = (await http.request("GET", f"{run.url}/control/v1/status")).json()
        assert status["metadata_outdated"] == {"cause": "migration", "why": status["held_back"]}
        assert "phase PREPARATION" in status["held_back"]
        assert cluster.asked == []
        await cluster.migrate("FAILED")
        await eventually(lambda: counts(cluster) == [4, 4, 4], what="four bundles each")


async def test_the_metric_shows_a_migration_that_nobody_has_asked_for(
    cluster: ForeignCluster, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_source, "_PERIOD_S", 0.05)
    at_rest = b'broker_ctl_cluster_metadata_outdated{cause="migration",cluster="played"} 0.0'
    outdated = b'broker_ctl_cluster_metadata_outdated{cause="migration",cluster="played"} 1.0'
    async with attached_run(cluster) as leader, attached_run(cluster) as run:

        async def shows(sample: bytes) -> bool:
            reply = await http.request("GET", f"{run.url}/metrics")
            return sample in reply.body

        await eventually(lambda: leader.is_leading, what="a leader, which is not this one")
        await eventually(lambda: shows(at_rest), what="a store in use")
        await cluster.migrate("COPYING")
        await eventually(lambda: shows(outdated), what="an outdated store")


async def test_another_daemon_leads_on_when_the_leader_is_gone(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    async with attached_run(cluster) as second_run:
        await eventually(lambda: second_run.is_leading, what="a first leader")
        async with attached_run(cluster) as run:
            leader = {"serviceUrl": second_run.url, "brokerId": second_run.url[7:]}
            await eventually(lambda: run.attached.election.leader is not None, what="a follower")
            found = await http.request("GET", f"{run.url}/admin/v2/brokers/leaderBroker")
            assert found.json() == leader
            reply = await http.request("GET", f"{run.url}/control/v1/plan")
            assert reply.status == 307
            assert reply.headers["Location"] == f"{second_run.url}/control/v1/plan"
            second_run.signals.ask()
            await eventually(lambda: run.is_leading, what="the second leads")
            epoch = run.attached.balancer.overview()["epoch"]
            assert epoch == 2


async def test_a_daemon_whose_session_has_expired_leads_again_in_the_next_one(
    cluster: ForeignCluster,
) -> None:
    async with attached_run(cluster) as run:
        await eventually(lambda: "dry_run" in results(run), what="a cycle")
        cluster.ensemble.expire(run.store.session_id)
        controller = run.attached.balancer
        await eventually(
            lambda: controller.is_leading and controller.overview()["epoch"] == 2,
            what="it leads at a new epoch",
        )
        await eventually(lambda: "dry_run" in results(run), what="a cycle of that")


async def test_the_verbs_of_the_command_line_are_answered(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    async with attached_run(cluster) as run:
        await eventually(lambda: "dry_run" in results(run), what="a cycle")

        async def get(path: str) -> object:
            reply = await http.request("GET", f"{run.url}{path}")
            assert reply.status == 200, (path, reply.status, reply.body)
            return reply.json()

        assert await get("/admin/v2/brokers") == sorted(b.broker_id for b in cluster.brokers)
        status = await get("/control/v1/status")
        assert isinstance(status, dict)
        assert status["is_leader"] is True
        assert status["held_back"].startswith("decisions are recorded but not executed")
        owners = await get(f"/control/v1/owners?namespace={NAMESPACE}")
        assert isinstance(owners, list)
        assert {row["owner"] for row in owners} == {b.broker_id for b in cluster.brokers}
        seen = await get("/control/v1/cluster")
        assert isinstance(seen, dict)
        assert [row["bundles"] for row in seen["brokers"]] == [
            len(cluster.broker(row["broker"]).owned) for row in seen["brokers"]
        ]
        named = cluster.brokers[0].broker_id
        explained = await get(f"/control/v1/explain?subject={named}")
        assert isinstance(explained, dict)
        assert explained["broker"] == named
        assert await get("/control/v1/history?kind=transfer") != []
        assert (await http.request("GET", f"{run.url}/readyz")).status == 200
        metrics = await http.request("GET", f"{run.url}/metrics")
        assert b'seat="attach"} 1.0' in metrics.body


async def test_a_pause_holds_and_a_plan_is_not_approved_where_nothing_may_be_done(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    async with attached_run(cluster) as run:
        await eventually(lambda: "dry_run" in results(run), what="a cycle")
        plan = (await http.request("GET", f"{run.url}/control/v1/plan")).json()
        approved = await http.request("PUT", f"{run.url}/control/v1/plans/{plan['id']}", json={})
        assert approved.status == 409
        assert "pulsarAct" in approved.json()["reason"]
        await http.request("PUT", f"{run.url}/control/v1/pause", json={"by": "me"})
        await eventually(lambda: "paused" in results(run), what="a paused cycle")
        assert await cluster.store.exists(paths.PAUSE) is not None


async def test_load_reports_and_decisions_are_recorded_in_the_history(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    async with attached_run(cluster, ACT, history=tmp_path) as run:
        controller = run.attached.balancer
        await eventually(
            lambda: controller.is_leading and controller.overview()["unloads"] == 6,
            what="six moves that are over",
        )
    found = lines(tmp_path)
    assert {"broker_loads", "bundle_loads", "leader_epochs"} <= {line.stamp.kind for line in found}
    acts = [row for line in found if line.stamp.kind == "decisions" for row in line.rows]
    assert [row.result for row in acts if row.decision == "transfer"] == ["done"] * 6


async def test_a_stop_deletes_the_leader_node_and_the_heartbeat(
    cluster: ForeignCluster,
) -> None:
    async with attached_run(cluster) as run:
        await eventually(lambda: run.is_leading, what="a leader")
        own_id = run.attached.foundation.urls.broker_id
        assert await cluster.store.exists(paths.ATTACH_ELECTION.node_path) is not None
        assert await cluster.store.exists(paths.lease(own_id)) is not None
        run.signals.ask()
        assert await run.daemon == 0
        assert await cluster.store.exists(paths.ATTACH_ELECTION.node_path) is None
        assert await cluster.store.exists(paths.lease(own_id)) is None


async def test_a_cluster_whose_load_is_in_topics_is_refused_in_clear_words() -> None:
    manager = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    async with foreign_cluster() as cluster:
        for broker in cluster.brokers:
            # Such brokers register, and that is all that they write.
            web = f"http://{broker.broker_id}"
            registered = {"webServiceUrl": web, "loadManagerClassName": manager}
            data = json.dumps(registered).encode()
            await broker.store.set(paths.load_report(broker.broker_id), data)
        refused = pytest.RaisesExc(StartError, match="ExtensibleLoadManagerImpl.*in topics")
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            async with attached_run(cluster) as run:
                await run.daemon


async def test_the_settings_say_which_daemon_is_run(cluster: ForeignCluster) -> None:
    store = "metadataStoreUrl=zk:127.0.0.1:1"
    around = Environment(SystemClock(), random.Random(1))
    beside = build_daemon(attached_settings(cluster, store), StopSignals(), around)
    assert isinstance(beside, AttachedDaemon)
    simulated = attached_settings(cluster, store, "dataPlane=simulated")
    own = build_daemon(simulated, StopSignals(), around)
    assert isinstance(own, Daemon)


async def test_servers_whose_ticks_are_longer_than_configured_are_refused(
    cluster: ForeignCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def granting(_: MemoryStore) -> list[float]:
        return [4.0]

    monkeypatch.setattr(MemoryStore, "least_timeouts_s", granting)
    refused = pytest.RaisesExc(StartError, match="4000 ms to a session, but 1000 ms are expected")
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        async with attached_run(cluster) as run:
            await eventually(run.daemon.done, deadline_s=20.0)


async def test_another_clusters_name_is_refused(cluster: ForeignCluster) -> None:
    refused = pytest.RaisesExc(
        StartError, match="not one of the clusters in /admin/clusters: played"
    )
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        async with attached_run(cluster, "clusterName=other") as run:
            await run.daemon


async def test_an_onlooker_that_would_act_is_refused(cluster: ForeignCluster) -> None:
    attached, _ = attached_to(cluster, ACT)
    with pytest.raises(StartError, match="an observer must not act"):
        async with observing(attached):
            await eventually(lambda: cluster.asked, what="an act without an election")


@pytest.fixture
async def approved(cluster: ForeignCluster) -> list[str]:
    """A plan that an earlier leader was to carry out; the paths of its nodes."""
    first = cluster.brokers[0]
    bundle = min(first.owned)
    split = Split(bundle, first.broker_id, "range_equally_divide", (), Reason.ADMIN, "it is a test")
    record = PlanRecord("p1", 1, AuditInfo.of(1, "me", "a test"), (split,), 0)
    progress = PlanProgress(ApprovalState.APPROVED, (Fate.WAITING,), 1)
    written = {paths.plan("p1"): record.encode(), paths.plan_progress("p1"): progress.encode()}
    for path, data in written.items():
        await cluster.store.create(path, data, make_parents=True)
    return [*written]


async def test_a_leader_that_may_not_act_leaves_an_approved_plan_to_one_that_may(
    cluster: ForeignCluster, approved: list[str]
) -> None:
    before = [await cluster.store.get(path) for path in approved]

    async def begun() -> bool:
        return [await cluster.store.get(path) for path in approved] != before

    attached, _ = attached_to(cluster)
    async with observing(attached):
        controller = attached.balancer
        await eventually(lambda: controller.is_leading, what="an onlooker")
        await eventually(lambda: controller.overview()["cycle"] >= 2, what="two cycles")
    async with attached_run(cluster) as run:
        await eventually(lambda: run.is_leading, what="a leader")
        await eventually(lambda: run.attached.balancer.overview()["cycle"] >= 2, what="two cycles")
    assert not await begun()
    async with attached_run(cluster, ACT):
        await eventually(begun, what="it is begun by who may act")


@pytest.mark.parametrize(
    ("version", "manager", "reason"),
    [
        ("2.9.2", "ModularLoadManagerImpl", "Pulsar before 3.0 ignores the destination"),
        ("4.0.8", "SimpleLoadManagerImpl", "would ignore requests: loadManagerClassName="),
    ],
)
async def test_a_leader_does_not_act_on_a_cluster_that_ignores_destinations(
    cluster: ForeignCluster, version: str, manager: str, reason: str
) -> None:
    cluster.version = version
    cluster.load_manager = f"org.apache.pulsar.broker.loadbalance.impl.{manager}"
    await cluster.report()
    async with attached_run(cluster, ACT, "pulsarActDespiteClusterBalancer=true") as run:
        await eventually(lambda: "held_back" in results(run), what="decisions that are held back")
        why = await run.attached.cluster_balancer.blocked_reason()
    assert reason in why
    assert "pulsarActDespiteClusterBalancer" not in why
    assert cluster.asked == []
