"""Settings that are read while a daemon runs, by what they do, and all that may change then."""

import logging
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.lookup.lookup import Connect
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.daemon.lifecycle import exits, start
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.logs import JsonFormatter, TextFormatter
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.stores import take
from broker_ctl.errors import StartError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.sources import load, with_dynamic
from broker_ctl.settings.strategies import OpenCatalog
from broker_ctl.store import paths
from broker_ctl.store.interface import NO_SESSION
from broker_ctl.store.records.policies import LocalPolicies
from tests.support.daemon.built import changed, seen
from tests.support.daemon.in_memory_daemon import InMemory, running, settings_of
from tests.support.daemon.wired_settings import WIRED, Wired
from tests.support.time.waiting import eventually

RING = Ring.even(Namespace("public", "default"), 4)
# As it is while nothing has changed: what a start hands to the servers.
AT_THE_START = "ApiRules."


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The process's, given back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def started(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> int:
    monkeypatch.setattr(start, "_run", AsyncMock(return_value=0))
    return start.run(None, ["metadataStoreUrl=h", "allowOpenMetadataStore=true", *overrides])


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
@pytest.mark.parametrize(("form", "formatter"), [("json", JsonFormatter), ("text", TextFormatter)])
def test_the_log_has_its_form_and_its_level(
    form: str,
    level: str,
    formatter: type[logging.Formatter],
    monkeypatch: pytest.MonkeyPatch,
    root_logger: logging.Logger,
) -> None:
    assert started(monkeypatch, f"logFormat={form}", f"logLevel={level}") == 0
    (handler,) = root_logger.handlers
    assert isinstance(handler.formatter, formatter)
    assert root_logger.level == logging.getLevelNamesMapping()[level.upper()]


def test_an_open_listener_must_be_allowed(
    monkeypatch: pytest.MonkeyPatch, root_logger: logging.Logger
) -> None:
    with pytest.raises(StartError, match="anybody could command"):
        started(monkeypatch, "bindAddress=0.0.0.0")
    assert started(monkeypatch, "bindAddress=0.0.0.0", "allowInsecureListener=true") == 0
    assert root_logger.handlers


def test_credentials_in_the_clear_must_be_allowed(
    monkeypatch: pytest.MonkeyPatch, root_logger: logging.Logger
) -> None:
    served = ("bindAddress=0.0.0.0", "authenticationEnabled=true", "tokenSecretKeyFile=s")
    with pytest.raises(StartError, match=r"webServicePort=8080: .* in the clear"):
        started(monkeypatch, *served)
    assert started(monkeypatch, *served, "allowCleartextCredentials=true") == 0
    assert root_logger.handlers


def test_an_override_loads_only_what_allowed_plugins_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenCatalog, "is_foreign", lambda *_: True)
    override = {"loadBalancerLoadPlacementStrategy": "ThresholdShedder"}
    for allowed, complaints in (("Other", 1), ("Other,ThresholdShedder", 0)):
        start = load(None, {}, [f"allowedPlugins={allowed}"])
        problems = [
            problem
            for problem in with_dynamic(start, override)[1]
            if "allowedPlugins" in str(problem)
        ]
        assert len(problems) == complaints


def test_a_restriction_without_effect_must_be_accepted(
    monkeypatch: pytest.MonkeyPatch, root_logger: logging.Logger
) -> None:
    restricted = "httpMaxRequestSize=65536"
    with pytest.raises(StartError, match=r"httpMaxRequestSize: .* does not implement"):
        started(monkeypatch, restricted)
    accepted = "acceptIgnoredSecuritySettings=httpMaxRequestSize"
    assert started(monkeypatch, restricted, accepted) == 0
    assert root_logger.handlers


@in_virtual_time
async def test_beside_a_foreign_broker_it_starts_where_that_is_allowed() -> None:
    for allowed in (True, False):
        ensemble = MemoryEnsemble()
        other = MemoryStore(ensemble)
        await other.start()
        await other.wait_connected()
        await other.create(paths.load_report("java:8080"), b"{}", make_parents=True)
        around = InMemory(ensemble)
        if allowed:
            async with running("allowMixedCluster=true", around=around) as run:
                assert run.assembly.status.now.is_ready
        else:
            with pytest.RaisesGroup(
                pytest.RaisesExc(StartError, match="java:8080"), flatten_subgroups=True
            ):
                async with running(around=around) as run:
                    await run.ended
        await other.close()


@in_virtual_time
async def test_an_expiry_ends_the_process_where_that_is_asked_for() -> None:
    async with running("zookeeperSessionExpiredPolicy=shutdown") as run:
        run.around.ensemble.expire(run.around.store.session_id)
        assert await run.ended == exits.SESSION_LOST
    async with running("zookeeperSessionExpiredPolicy=reconnect") as run:
        run.around.ensemble.expire(run.around.store.session_id)
        await eventually(lambda: run.assembly.foundation.watcher.epoch == 2)
        await eventually(lambda: run.assembly.status.now.is_ready)
    assert run.ended.result() == exits.STOPPED


@in_virtual_time
async def test_a_stop_keeps_the_session_in_the_directory_that_is_named(tmp_path: Path) -> None:
    async with running("stopMode=keep", f"sessionDirectory={tmp_path}") as run:
        kept = run.around.store.session_id
    assert take(tmp_path).session_id == kept
    assert kept in run.around.ensemble.session_ids
    async with running("stopMode=handover", f"sessionDirectory={tmp_path}") as run:
        ended = run.around.store.session_id
    assert take(tmp_path) == NO_SESSION
    assert ended not in run.around.ensemble.session_ids


@in_virtual_time
async def test_a_stop_takes_as_long_as_it_may_by_now() -> None:
    given_s: list[float] = []

    class Timed(Daemon):
        async def _hand_over(self, drain_s: float) -> None:
            given_s.append(drain_s)
            await super()._hand_over(drain_s)

    async with running("brokerShutdownTimeoutMs=7000", kind=Timed):
        pass
    async with running(kind=Timed) as run:
        configuration = run.assembly.services.configuration
        await configuration.set("brokerShutdownTimeoutMs", "9000")
        await eventually(lambda: configuration.current().session.shutdown_timeout_s == 9)
    assert given_s == [7.0, 9.0]


class Served(InMemory):
    """With the servers, which are started by hand, and on no port."""

    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        return ApiServer(dependencies, rules)


@in_virtual_time
async def test_metrics_show_bundles_from_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_ctl.api.broker_server.HttpServer.start", AsyncMock())
    monkeypatch.setattr("broker_ctl.api.broker_server.HttpServer.stop", AsyncMock())
    async with running("statsUpdateFrequencyInSecs=1", around=Served()) as run:
        dependencies, base = run.assembly, run.assembly.foundation
        path, payload = (
            paths.local_policies(RING.namespace),
            LocalPolicies(RING.boundaries).encode(),
        )
        await base.store.create(path, payload, make_parents=True)
        await eventually(lambda: dependencies.coordination.election.leadership is not None)

        async def is_taken() -> bool:
            return isinstance(await dependencies.lookup.find_bundle(RING.bundles[0]), Connect)

        await eventually(is_taken)
        shown = base.instruments.traffic.topics
        await eventually(lambda: dependencies.services.reporter.current().load.bundles)
        assert list(shown.samples()) == []
        await dependencies.services.configuration.set("exposeBundlesMetricsInPrometheus", "true")
        await eventually(lambda: list(shown.samples()))


DYNAMIC = [row for row in WIRED if DECLARATIONS[row.key].setting.is_dynamic]


def test_all_that_may_change_is_tried() -> None:
    tried = {row.key for row in DYNAMIC}
    elsewhere = {"brokerShutdownTimeoutMs", "exposeBundlesMetricsInPrometheus"}
    dynamic = {key for key, one in DECLARATIONS.items() if one.setting.is_dynamic}
    assert tried | elsewhere == dynamic


@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: row.key)
@in_virtual_time
async def test_a_change_at_run_time_arrives_where_the_setting_does(
    row: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_ctl.api.broker_server.HttpServer.start", AsyncMock())
    assembly = Assembly(settings_of(*row.beside), Served())
    store, configuration = assembly.foundation.store, assembly.services.configuration
    await store.start()
    await store.wait_connected()
    await assembly.api.start()
    await configuration.start()
    before = seen(assembly)
    await configuration.set(row.key, row.value)
    await eventually(lambda: configuration.current().origin(row.key) == "dynamic")
    places = changed(before, seen(assembly))
    arrives = {p: count for p, count in row.places.items() if not p.startswith(AT_THE_START)}
    assert arrives
    assert {place: min(places[place], least) for place, least in arrives.items()} == arrives
    await configuration.close()
    await assembly.foundation.metadata.close()
