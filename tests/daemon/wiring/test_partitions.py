"""What a daemon is built of for replicated partitions, and what it is without a brokerId."""

import random
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.replicas.lifecycle import (
    ReplicaAuthority,
    ReplicaDependencies,
    Replicas,
    ReplicaStatistics,
)
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.partitions.values import ControllerRules, LiveBroker
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.dataplanes import build_replica_plane
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.partitions import controller_rules
from broker_ctl.daemon.wiring.services import DaemonStatus, session_grant
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from broker_ctl.tasks import TaskFaults
from tests.support.clusters.sessions import TICK_S, parties
from tests.support.http.web_server import serving
from tests.support.replicas.replica_plane import InMemoryReplicas
from tests.support.time.waiting import PATIENCE_S, eventually

STORE = "metadataStoreUrl=zk:127.0.0.1:1"


def settings_with(*texts: str) -> Settings:
    return load(None, {}, [STORE, *texts])


def environment() -> Environment:
    return Environment(SystemClock(), random.Random(1))


def test_a_daemon_without_a_number_has_nothing_of_it() -> None:
    assembly = Assembly(settings_with(), environment())
    connect(assembly)
    assert assembly.partitions is None
    leaders = assembly.foundation.instruments.session.lead_epoch
    assert [sample.labels for sample in leaders.samples()] == [{"seat": "loadbalance"}]


def test_a_daemon_without_a_broker_id_answers_who_leads_partitions() -> None:
    shown: list[Dependencies] = []

    class Seeing(Environment):
        def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
            shown.append(dependencies)
            return super().api(dependencies, rules)

    assembly = Assembly(settings_with(), Seeing(SystemClock(), random.Random(1)))
    assert shown[0].services.partition_leaders is assembly.services.partition_leaders


def test_a_daemon_with_a_broker_id_keeps_replicas_and_stands_in_both_elections(
    tmp_path: Path,
) -> None:
    texts = ("brokerId=3", "brokerServicePort=6651", f"simulatedLogDirectory={tmp_path}")
    assembly = Assembly(settings_with(*texts), environment())
    connect(assembly)
    assert assembly.partitions is not None
    assert isinstance(assembly.partitions.plane, SimulatedReplicas)
    assert assembly.partitions.replicas.ids.broker_id == 3
    assert assembly.partitions.dependencies.admin() is None
    assert assembly.partitions.dependencies.controller() is None
    leaders = assembly.foundation.instruments.session.lead_epoch
    elections = [sample.labels["seat"] for sample in leaders.samples()]
    assert elections == ["loadbalance", "controller"]


def test_statistics_of_replicas_are_exported() -> None:
    """Each series follows its own count: with one of these lines taken out it stands at 0."""
    assembly = Assembly(settings_with("brokerId=3"), environment())
    connect(assembly)
    assert assembly.partitions is not None
    counts = ReplicaStatistics(
        held=2,
        failed=3,
        queued_applied=4,
        queued_corrupt=5,
        stale=6,
        isr_expanded=7,
        isr_shrunk=8,
        isr_refused=9,
    )
    replicas: Any = assembly.partitions.replicas
    replicas.statistics = lambda: counts
    replicas._instructions.count_led = lambda: 1
    replicas.throttle = SimpleNamespace(rate=10)
    shown = assembly.foundation.instruments.replicas
    values = [
        sample.value
        for instrument in (
            *(shown.led, shown.held, shown.failed, shown.queued, shown.corrupt, shown.fenced),
            *(shown.isr_expands, shown.isr_shrinks, shown.isr_refused, shown.throttle),
        )
        for sample in instrument.samples()
    ]
    assert values == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_controlled_shutdown_may_be_left_out() -> None:
    asked = Assembly(settings_with("brokerId=3"), environment())
    assert asked.partitions is not None
    assert asked.partitions.shutdown is not None
    texts = ("brokerId=3", "controlledShutdownEnabled=false")
    left_out = Assembly(settings_with(*texts), environment())
    assert left_out.partitions is not None
    assert left_out.partitions.shutdown is None


def test_the_controller_decides_by_the_settings() -> None:
    texts = (
        "uncleanLeaderElectionEnable=true",
        "minInSyncReplicas=2",
        "replicaAcknowledgeTimeoutMillis=1500",
        "zkQueueMaxInstructions=7",
        "autoLeaderRebalanceEnabled=false",
        "leaderImbalancePerBrokerPercentage=20",
        "leaderImbalanceCheckIntervalSeconds=60",
    )
    assert controller_rules(settings_with(*texts)) == ControllerRules(
        is_unclean_allowed=True,
        min_isr=2,
        acknowledge_s=1.5,
        max_queued=7,
        is_rebalancing=False,
        imbalance_percent=20,
        imbalance_check_s=60,
    )


# A broker process behind HTTP.


@in_virtual_time
async def test_no_authority_is_reported_before_all_former_leaders_have_been_stopped() -> None:
    async with parties() as (party,):
        plane, gate = InMemoryReplicas(1), ReplicaAuthority()
        own = LiveBroker(1, 0, "h", 6650, "a:1", "http://a:1")
        ids = BrokerIds(
            party.store, own, party.deletions, party.clock, TICK_S, rng=random.Random(1)
        )
        replicas = Replicas(
            ReplicaDependencies(
                party.store,
                ids,
                plane,
                gate,
                lambda: plane.instance_id,
                1.0,
                30.0,
                rng=random.Random(1),
            )
        )
        parts = party.watcher, party.clock, TaskFaults(), session_grant(party.watcher)
        reported = DaemonStatus(*parts, replicas).authority
        assert reported() == (1, 0)
        await replicas.prepare(1)
        assert reported()[1] > 0
        party.expire()
        await eventually(lambda: party.watcher.epoch == 2)
        await party.watcher.wait_authority()
        assert reported() == (2, 0)
        assert DaemonStatus(*parts).authority()[1] > 0
        await replicas.prepare(2)
        assert reported()[1] > 0


async def start_beside(answers: Mapping[str, Any]) -> None:
    """Start the replicas of a broker process that answers with these, and with 404 else."""

    async def answer(request: web.Request) -> web.Response:
        if request.path not in answers:
            return web.json_response({"instance_id": "i", "reason": "no such path"}, status=404)
        return web.json_response({"instance_id": "i", **answers[request.path]})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with (
        serving(app) as url,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        clock = SystemClock()
        process = WebhookDataPlane(url, http, clock, failure_timeout_s=5)
        plane = build_replica_plane(
            settings_with("brokerId=3"),
            process,
            clock,
            Authority,
            random.Random(1),
            reloader=Reloader(),
        )
        await plane.start()
        await plane.stop()


async def test_a_broker_process_that_keeps_replicas_is_taken() -> None:
    await start_beside({replica_wire.REPLICAS: {"replicas": []}})


async def test_a_broker_process_without_replicas_is_refused_at_the_start() -> None:
    with pytest.raises(StartError, match=r"keeps no replicas.*unset brokerId"):
        await start_beside({wire.STATE: {"bundles": []}})
