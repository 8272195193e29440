"""Every instrument is fed: gauges and totals follow a part, the others are written to somewhere."""

import ast
from collections import Counter as Calls
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

import broker_ctl
from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.attach.attached import Attached
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Counter, Gauge, Histogram, Instrument, Reported, Summary
from broker_ctl.lab.time import in_virtual_time
from tests.support.daemon.in_memory_daemon import InMemory, settings_of

PACKAGE = Path(broker_ctl.__file__).parent
FEEDING = {"add", "observe", "observe_many", "labelled"}
# Those that more than one part says something of; tests/api/metrics/test_bounds.py names all that
# say something of bounds.
SEVERAL = {"bundles.resource_usage": 2}
# Counters and histograms that are written to in more than one place: by field, in how many.
SEVERAL_PLACES = {
    "acknowledge_s": 3,
    "corrupt_nodes": 4,
    "event_failures": 2,
    "instructions": 3,
    "latency_ms": 2,
    "lost": 2,
    "queue_wait_ms": 2,
    "reclaimed": 2,
}
# Of a daemon beside a Pulsar cluster.
ATTACHED = {"attached.destinations_ignored", "attached.metadata_outdated"}


class Served(InMemory):
    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        return ApiServer(dependencies, rules)


def named(instruments: Instruments) -> dict[str, Instrument]:
    """By group and field."""
    return {
        f"{group}.{name}": instrument
        for group, members in vars(instruments).items()
        for name, instrument in vars(members).items()
        if isinstance(instrument, Instrument)
    }


def taken() -> set[tuple[str, str]]:
    """Who is asked for which field, anywhere but where the instruments are declared."""
    found: set[tuple[str, str]] = set()
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name == "instruments":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else ""
                name = owner.id if isinstance(owner, ast.Name) else name
                found.add((name.removeprefix("_"), node.attr))
                if node.attr in FEEDING:
                    # Whatever the group is called there.
                    found.add(("fed", name))
    return found


@in_virtual_time
async def test_every_gauge_follows_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_ctl.api.broker_server.HttpServer.start", AsyncMock())
    settings = settings_of("brokerId=1", f"loadHistoryDirectory={tmp_path}")
    assembly = Assembly(settings, Served())
    connect(assembly)
    await assembly.api.start()
    silent = [
        name
        for name, one in named(assembly.foundation.instruments).items()
        if (isinstance(one, Gauge) and not one._reads)  # nobody else asks
        or (isinstance(one, Summary) and one._read is None)
    ]
    assert set(silent) == ATTACHED
    several = {
        name: len(one._reads)
        for name, one in named(assembly.foundation.instruments).items()
        if isinstance(one, Gauge) and len(one._reads) > 1
    }
    bounds = {several.pop(f"bounds.{name}") for name in ("used", "limit", "refused")}
    assert len(bounds) == 1
    assert several == SEVERAL


@in_virtual_time
async def test_a_daemon_beside_a_pulsar_cluster_follows_what_is_its_own() -> None:
    attached = Attached(settings_of("dataPlane=pulsar", "pulsarAdminUrl=http://h"), InMemory())
    followed = named(attached.foundation.instruments)
    for name in ATTACHED:
        one = followed[name]
        assert isinstance(one, Gauge)
        assert one._reads


def test_every_counter_and_histogram_is_written_to() -> None:
    written = taken()
    counting = {
        n
        for n, one in named(Instruments()).items()
        if isinstance(one, Counter | Histogram | Reported)
    }
    assert len(counting) > 10
    fed = {
        f"{group}.{name}"
        for group, _, name in (one.partition(".") for one in counting)
        if written & {(group, name), ("instruments", name), ("fed", name)}
    }
    assert counting - fed == set()


def test_an_instrument_with_several_writers_is_fed_by_all_of_them() -> None:
    counting = {
        name.partition(".")[2]
        for name, one in named(Instruments()).items()
        if isinstance(one, Counter | Histogram | Reported)
    }
    places = Calls(
        node.func.value.attr
        for file in PACKAGE.rglob("*.py")
        if file.parent.name != "instruments"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in FEEDING
        and isinstance(node.func.value, ast.Attribute)
    )
    several = {name: count for name, count in places.items() if name in counting and count > 1}
    assert several == SEVERAL_PLACES


def test_every_instrument_is_of_a_kind_that_these_tests_check() -> None:
    assert all(
        isinstance(one, Gauge | Summary | Counter | Histogram)
        for one in named(Instruments()).values()
    )
