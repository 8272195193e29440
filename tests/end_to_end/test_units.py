"""What every verb prints for programs, from real daemons: one system of units."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.testing import CliRunner, Result

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.rules.json_units import out_of_system
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPICS: Final = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(12)]
# By verb, what it is asked for; `{broker}` and so on are filled in.
ASKED: Final[Mapping[str, str]] = {
    "advise size": "--growth 30",
    "status": "",
    "status --cluster": "",
    "brokers list": "",
    "bundles list": "public/default --sort load",
    "bundles owner": "{bundle}",
    "controller show": "",
    "drain": "",
    "drain {broker} --dry-run": "",
    "explain {broker}": "",
    "explain": "{bundle}",
    "history": "",
    "leader show": "",
    "topics lookup": "persistent://public/default/t-1",
    "partitions list": "",
    "partitions describe": "orders",
    "partitions explain": "orders-0",
    "partitions history": "orders",
    "partitions reassign plan": "orders --brokers 1,2",
    "partitions reassign status": "",
    "plan": "",
    "plan --verbose": "",
    "rollout plan": "--accept-overload",
}
# What a verb of these prints is Pulsar's own, or has no quantities.
OTHERS: Final = frozenset(
    {
        *("anti-affinity", "clusters", "configuration", "failure-domains", "isolation-policies"),
        *("namespaces", "tenants", "topics", "brokers load-report", "brokers topics"),
        # Each has a test of its own that looks at its fields.
        *("attach", "brokers monitor", "simulate", "zookeeper status"),
        "advise backtest",
        *("rollout status", "support-bundle"),
        # Findings in words.
        "doctor",
        "secrets check",
        # Cases that went well or not, and no quantities.
        *("dataplane check", "audit verify", "cluster-key", "tokens"),
        # Each event as it stands in the file.
        "audit tail",
        # Settings and columns of tables have the units that are declared with them.
        *("config", "pipeline"),
    }
)


def verbs(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Those that print JSON and change nothing."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from verbs(below, (*words, name))
        return
    options = {option for each in command.params for option in each.opts}
    if "--output" in options and "--dry-run" not in options:
        yield " ".join(words)


def test_every_verb_is_asked() -> None:
    left = {
        verb for verb in verbs(main) if verb not in ASKED and not OTHERS & set(_beginnings(verb))
    }
    assert left == set()


def _beginnings(verb: str) -> Iterator[str]:
    words = verb.split()
    for count in range(1, len(words) + 1):
        yield " ".join(words[:count])


async def printed(url: str, verb: str) -> Any:
    arguments = [*verb.split(), "--output", "json"]
    arguments += ["--url", url]

    async def run() -> Result | None:
        ran = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        # No leader at present, or one that has not heard of all brokers yet.
        return None if "(503)" in ran.output else ran

    result = await eventually(run, 60.0, f"an answer to {verb}", 0.5)
    # A drain that the others have no room for is refused in words.
    if result.exit_code == 1 and "drain" in verb:
        return {}
    assert result.exit_code == 0, f"{verb}: {result.output}"
    return json.loads(result.stdout)


async def test_all_that_is_printed_for_programs_is_in_one_system_of_units(
    http: HttpClient, zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    source = f"{zookeeper.connect_string}{chroot}"
    settings = {**SETTINGS, "metadataStoreUrl": f"zk:{source}", "replicaPollMillis": "100"}
    settings["loadBalancerAutoBundleSplitEnabled"] = "false"
    async with ReplicatedDaemons(tmp_path, 2, settings, http) as daemons:
        first = daemons.by_id[1]
        await make_namespace(http, first)
        for topic in TOPICS:
            await look_up(http, first, topic)
        await _made(daemons, first.url)
        leading = await eventually(lambda: leader_of(http, [*daemons.by_id.values()]), 60.0)
        leader = leading[0]
        bundle = await eventually(lambda: _with_load(leader), 60.0, what="a bundle with load")
        filled = {"broker": leader.broker_id, "bundle": bundle}
        for verb, more in ASKED.items():
            asked = f"{verb} {more}".strip().format_map(filled)
            found = await printed(first.url, asked)
            assert list(out_of_system(found)) == [], asked


async def _made(daemons: ReplicatedDaemons, url: str) -> None:
    async def knows_both() -> bool:
        found = await daemons.controller()
        return found is not None and len(found["brokers"]) == 2

    await eventually(knows_both, 60.0, what="a controller that knows both brokers")
    make = "partitions create orders --partitions 2 --replication-factor 2 --yes"
    await printed(url, make)


async def _with_load(leader: DaemonProcess) -> str | None:
    try:
        seen = await printed(leader.url, "status --cluster")
    except HttpError:
        return None
    loaded = [row["bundle"] for row in seen["bundles"] if row["throughput_bytes_per_s"] > 0]
    return loaded[0] if loaded else None
