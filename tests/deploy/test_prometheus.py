"""Alerts and dashboard at a real Prometheus, which scrapes a quickstart whose brokers fail."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.deploy.test_metric_names import ALERTS, alerts, panels
from tests.support.browser.quickstarts import quickstart
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

PATIENCE_S: Final = 180.0
# What Grafana puts in the place of its variables.
VARIABLES: Final = {"$cluster": "quickstart", "$instance": ".*", "$__rate_interval": "30s"}
CONFIGURATION: Final = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: broker-ctl
    static_configs:
      - targets: [{targets}]
"""
# They fire when the daemons that lead and control are killed; the pauses of `for` are left out.
FIRED: Final = {
    "BrokerDown",
    "NotOneLeader",
    "NotOneController",
    "PartitionsOffline",
    "PartitionsUnderReplicated",
}
# A counter of events that a label names has no series before the first one: that is health.
QUIET: Final = ("broker_ctl_ambiguous_results_total", "broker_ctl_lock_lost_total")
# What happens for the first time while it is scraped is seen: the series were there before.
FIRST: Final = (
    'increase(broker_ctl_decisions_total{kind="transfer",reason="admin",result="done"}[30s]) > 0',
    "count(broker_ctl_controller_acknowledge_seconds_count) == 3",
)
# Of replicas alone that die there are other signs than these, which must at least have a value.
SHOWN: Final = {
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "broker_ctl_controller_silent_brokers",
    "kafka_server_replicamanager_underminisrpartitioncount",
}

pytestmark = pytest.mark.slow


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    found = shutil.which("prometheus")
    if found is None:
        reason = "no Prometheus here: apt-get install --no-install-recommends prometheus"
        if request.config.getoption("require_prometheus"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@asynccontextmanager
async def scraping(program: str, directory: Path, targets: tuple[str, ...]) -> AsyncIterator[str]:
    """A Prometheus with the alerts as they are, except that none waits; yields its API."""
    rules = directory / "alerts.yml"
    rules.write_text(re.sub(r"^\s+for: .*\n", "", ALERTS.read_text(), flags=re.MULTILINE))
    hosts = ", ".join(url.removeprefix("http://") for url in targets)
    configuration = directory / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(rules=rules, targets=hosts))
    url = f"http://127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"{url}/api/v1"
    finally:
        process.terminate()
        await process.wait()


async def ask(url: str, **query: str) -> Mapping[str, Any]:
    try:
        async with aiohttp.ClientSession() as session, session.get(url, params=query) as reply:
            return dict(await reply.json())
    except aiohttp.ClientError as error:
        return {"status": "error", "error": str(error)}


async def fired(api: str) -> set[str]:
    """Alerts that have fired at some time: Prometheus records each as a series."""
    found = await ask(f"{api}/query", query="count by (alertname) (max_over_time(ALERTS[10m]))")
    return {each["metric"]["alertname"] for each in found.get("data", {}).get("result", ())}


async def have_fired(api: str) -> None:
    missing = set(FIRED)

    async def is_none_missing() -> bool:
        missing.difference_update(await fired(api))
        return not missing

    try:
        await eventually(is_none_missing, PATIENCE_S)
    except AssertionError:
        pytest.fail(f"never fired: {sorted(missing)}")


async def panels_have_series(api: str) -> None:
    """Wait until each has; the newest leader needs some scrapes, too."""
    silent = {
        expression: title
        for title, expression in panels()
        if not expression.partition("(increase(")[2].startswith(QUIET)
    }

    async def is_none_silent() -> bool:
        for expression in tuple(silent):
            if await has_series(api, expression):
                del silent[expression]
        return not silent

    try:
        await eventually(is_none_silent, PATIENCE_S)
    except AssertionError:
        pytest.fail("\n".join(f"{title}: {each}" for each, title in silent.items()))


async def test_every_expression_has_a_value_or_is_quiet_and_faults_are_seen(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = tmp_path / "quickstart"
    running.mkdir()
    # One of the panels is of what is exported on request only.
    monkeypatch.setenv("BROKER_CTL_exposeBundlesMetricsInPrometheus", "true")
    with quickstart(running, "--partitions", "3") as cluster:
        async with (
            scraping(program, tmp_path, cluster.urls) as api,
            aiohttp.ClientSession() as session,
        ):

            async def is_scraped() -> bool:
                found = await ask(f"{api}/query", query="sum(up)")
                result = found.get("data", {}).get("result", ())
                return bool(result) and result[0]["value"][1] == "3"

            await eventually(is_scraped, PATIENCE_S)
            overview = await ask(f"{cluster.url}/control/v1/partitions/controller")
            leader = (await ask(f"{cluster.url}/control/v1/cluster"))["leader"]
            numbers = {each["daemon"]: each["broker"] for each in overview["brokers"]}
            of_leader = numbers[leader]
            (controller,) = (
                each for each, number in numbers.items() if number == overview["broker"]
            )
            target = f"{cluster.url}/control/v1/partitions/topics/alone"
            async with session.put(target, json={"replicas": {"0": [of_leader]}}) as reply:
                assert reply.ok, await reply.text()
            await move_a_bundle(cluster.url)
            for expression in FIRST:
                await eventually(partial(has_series, api, expression), PATIENCE_S, expression)
            rules = (await ask(f"{api}/rules"))["data"]["groups"]
            judged = {rule["name"]: rule for group in rules for rule in group["rules"]}
            assert set(judged) == {name for name, _, _ in alerts()}

            async def are_healthy() -> bool:
                groups = (await ask(f"{api}/rules"))["data"]["groups"]
                return all(rule["health"] == "ok" for each in groups for rule in each["rules"])

            await eventually(are_healthy, PATIENCE_S)
            # Each is elected for itself: often, but not always, they are one.
            for daemon in {leader, controller}:
                cluster.kill_daemon(f"http://{daemon}")
            await have_fired(api)
            for expression in [each for _, each, _ in alerts()] + [each for _, each in panels()]:
                found = await ask(f"{api}/query", query=filled(expression))
                assert found["status"] == "success", (expression, found)
            await panels_have_series(api)
            for name in SHOWN:
                assert await has_series(api, name), name


def filled(expression: str) -> str:
    """The expression as Grafana sends it."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


async def move_a_bundle(url: str) -> None:
    """Have one moved on request, for the first time since the start."""

    async def is_moved() -> bool:
        view = await ask(f"{url}/control/v1/cluster")
        row = next((each for each in view.get("bundles", ()) if each["owner"]), None)
        if row is None:
            return False
        namespace, _, bundle = row["bundle"].rpartition("/")
        other = next(each["broker"] for each in view["brokers"] if each["broker"] != row["owner"])
        target = f"{url}/admin/v2/namespaces/{namespace}/{bundle}/unload"
        # It is refused where the bundle is split or moved meanwhile.
        async with (
            aiohttp.ClientSession() as session,
            session.put(target, params={"destinationBroker": other}) as reply,
        ):
            return reply.ok

    await eventually(is_moved, PATIENCE_S, "a bundle is moved")


async def has_series(api: str, expression: str) -> bool:
    """Whether it had a value at some time, however the series come and go with their brokers."""
    query = f"count_over_time(({filled(expression)})[2m:1s])"
    found = await ask(f"{api}/query", query=query)
    return bool(found["data"]["result"])
