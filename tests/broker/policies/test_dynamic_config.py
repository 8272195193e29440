"""Overrides of settings at run time: set with care, followed without a restart."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.broker.policies.dynamic_config import (
    DYNAMIC_KEYS,
    HIDDEN,
    MAX_TEXT_LENGTH,
    DynamicConfiguration,
)
from broker_ctl.daemon.wiring.dataplanes import report_rules
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.errors import SettingsError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from broker_ctl.store.paths import CONFIGURATION
from tests.support.time.waiting import eventually

INTERVAL = "loadBalancerSheddingIntervalMinutes"
TOPICS = "loadBalancerBrokerMaxTopics"


class Scene:
    """Two brokers of one cluster, which were started with other settings."""

    def __init__(self, started: Sequence[str]) -> None:
        ensemble = MemoryEnsemble()
        self.store, self.other_store = MemoryStore(ensemble), MemoryStore(ensemble)
        self.one = self._configuration(self.store, load(None, {}, started))
        self.other = self._configuration(self.other_store, Settings())

    @staticmethod
    def _configuration(store: MemoryStore, settings: Settings) -> DynamicConfiguration:
        return DynamicConfiguration(store, settings, clock=LoopClock(), rng=random.Random(1))

    async def written(self) -> Any:
        node = await self.other_store.get(CONFIGURATION)
        return None if node is None else json.loads(node.data)

    async def write(self, data: bytes) -> None:
        if await self.other_store.exists(CONFIGURATION) is None:
            await self.other_store.create(CONFIGURATION, data, make_parents=True)
        else:
            await self.other_store.set(CONFIGURATION, data)


@asynccontextmanager
async def scene(*started: str) -> AsyncIterator[Scene]:
    built = Scene(started)
    for store in (built.store, built.other_store):
        await store.start()
        await store.wait_connected()
    await built.one.start()
    await built.other.start()
    yield built
    await built.one.close()
    await built.other.close()
    for store in (built.store, built.other_store):
        await store.close()


@in_virtual_time
async def test_an_override_takes_effect_on_every_broker_and_ends_with_its_deletion() -> None:
    async with scene(f"{INTERVAL}=2") as built:
        heard: list[float] = []
        built.one.listen(lambda settings: heard.append(settings.shedding.interval_s))
        assert heard == []
        await built.other.set(INTERVAL, "0.5")
        both = (built.one, built.other)
        await eventually(lambda: {one.current().shedding.interval_s for one in both} == {30})
        assert built.one.current().origin(INTERVAL) == "dynamic"
        assert await built.one.overrides() == {INTERVAL: "0.5"}
        assert built.one.effective()[INTERVAL] == "0.5"
        await built.one.delete(INTERVAL)
        await eventually(lambda: built.one.current().shedding.interval_s == 120)
        await eventually(lambda: built.other.current().shedding.interval_s == 60)
        assert heard == [30, 120]
        assert await built.other.overrides() == {}


@in_virtual_time
async def test_the_leaders_loop_and_the_load_report_take_it_without_a_restart() -> None:
    async with scene() as built:
        for key, text in (
            (INTERVAL, "0.5"),
            ("loadBalancerSplitIntervalMinutes", "3"),
            ("loadBalancerResourceQuotaUpdateIntervalMinutes", "1"),
            ("loadBalancerBrokerThresholdShedderPercentage", "25"),
            ("lowerBoundarySheddingEnabled", "true"),
            ("loadBalancerNamespaceBundleMaxTopics", "7"),
            ("loadBalancerReportUpdateThresholdPercentage", "33"),
            ("dryRun", "true"),
        ):
            await built.other.set(key, text)
        await eventually(lambda: built.one.current().balancing.dry_run)
        rules = leader_rules(built.one.current())
        assert rules.is_dry_run
        assert (rules.shedding_interval_s, rules.splitting_interval_s) == (30, 180)
        assert rules.quota_interval_s == 60
        assert rules.shedding_rules.threshold_points == 25
        assert rules.shedding_rules.is_lower_boundary_enabled
        assert rules.splitting is not None
        assert rules.splitting.max_topics == 7
        assert report_rules(built.one.current()).threshold_percent == 33
        await built.other.set("loadBalancerSheddingEnabled", "false")
        await eventually(lambda: leader_rules(built.one.current()).shedding is None)


@in_virtual_time
async def test_overrides_that_stand_at_the_start_hold_from_the_start() -> None:
    async with scene() as built:
        await built.other.set(INTERVAL, "0.5")
        late = DynamicConfiguration(
            built.store, Settings(), clock=LoopClock(), rng=random.Random(2)
        )
        await late.start()
        assert late.current().shedding.interval_s == 30
        heard: list[Settings] = []
        late.listen(heard.append)
        assert heard == [late.current()]
        await late.close()


@in_virtual_time
async def test_a_text_that_cannot_be_used_is_left_out_and_the_others_hold() -> None:
    async with scene() as built:
        await built.write(
            json.dumps(
                {TOPICS: "many", INTERVAL: "0.5", "webServicePort": "1", "frobnicate": "x"}
            ).encode()
        )
        await eventually(lambda: built.one.current().shedding.interval_s == 30)
        assert built.one.current().placement == Settings().placement
        assert built.one.current().broker == Settings().broker
        assert sorted(problem.key for problem in built.one.problems) == [
            "frobnicate",
            TOPICS,
            "webServicePort",
        ]
        # A caller that sets another key is not refused for it, and removes nothing.
        await built.one.set("dryRun", "true")
        assert set(await built.written()) == {
            *(TOPICS, INTERVAL, "webServicePort", "frobnicate", "dryRun")
        }
        await built.one.set(TOPICS, "9")
        await eventually(lambda: built.other.current().placement.max_topics == 9)
        await built.one.delete("frobnicate")
        assert "frobnicate" not in await built.written()


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"dryRun":{}}'])
def test_a_corrupt_node_changes_nothing_and_is_counted(payload: bytes) -> None:
    @in_virtual_time
    async def spoil() -> None:
        async with scene() as built:
            await built.other.set(INTERVAL, "0.5")
            await eventually(lambda: built.one.current().shedding.interval_s == 30)
            await built.write(payload)
            await eventually(lambda: built.one.corrupt == 1)
            assert built.one.current().shedding.interval_s == 30

    spoil()


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("frobnicate", "1", "not a setting of broker-ctl"),
        ("tlsEnabled", "true", "not a setting of broker-ctl"),
        ("webServicePort", "8081", "not dynamic"),
        ("dryrun", "true", "dryRun is meant"),
        (TOPICS, "many", "an integer of at least 1"),
        (TOPICS, "0", "an integer of at least 1"),
        (INTERVAL, "nan", "a number"),
        ("dryRun", "perhaps", "true or false"),
        ("loadBalancerLoadPlacementStrategy", "ByMagic", "LeastLongTermMessageRate"),
        ("dryRun", "", "1 to"),
        ("loadBalancerSheddingExcludedNamespaces", "a/b," * MAX_TEXT_LENGTH, "1 to"),
        ("supportedNamespaceBundleSplitAlgorithms", "topic_count_equally_divide", "default"),
    ],
)
def test_an_invalid_key_or_value_is_refused_and_not_written(
    key: str, text: str, reason: str
) -> None:
    @in_virtual_time
    async def refuse() -> None:
        async with scene() as built:
            with pytest.raises(SettingsError, match=reason):
                await built.one.set(key, text)
            assert await built.written() is None

    refuse()


@in_virtual_time
async def test_overrides_are_judged_together_with_those_that_stand() -> None:
    async with scene() as built:
        default, supported = (
            "defaultNamespaceBundleSplitAlgorithm",
            "supportedNamespaceBundleSplitAlgorithms",
        )
        algorithm = "topic_count_equally_divide"
        await built.one.set(default, algorithm)
        await built.other.set(supported, algorithm)
        await eventually(lambda: built.one.current().text(supported) == algorithm)
        with pytest.raises(SettingsError, match="the default must be supported"):
            await built.one.set(default, "range_equally_divide")


@in_virtual_time
async def test_a_deletion_of_an_unset_key_succeeds_but_an_unknown_key_is_refused() -> None:
    async with scene() as built:
        await built.one.delete(INTERVAL)
        assert await built.written() is None
        for key in ("webServicePort", "frobnicate"):
            with pytest.raises(SettingsError, match=key):
                await built.one.delete(key)


@in_virtual_time
async def test_the_effective_configuration_omits_secrets() -> None:
    secrets = {
        "tokenSecretKeyFile": "/etc/secret",
        "superUserRoles": "root",
        "dataPlaneSecretFile": "/etc/other",
    }
    started = [f"{key}={text}" for key, text in secrets.items()]
    async with scene(*started, f"{TOPICS}=7") as built:
        effective = built.one.effective()
        assert effective.keys() >= set(DYNAMIC_KEYS)
        assert (effective["webServicePort"], effective[TOPICS]) == ("8080", "7")
        assert not secrets.keys() & effective.keys()
        # Pulsar's brokers may share the node, and keep the password of their clients in it.
        foreign = {"brokerClientAuthenticationParameters": "token:x", TOPICS: "8"}
        await built.write(json.dumps(foreign).encode())
        assert await built.one.overrides() == {
            "brokerClientAuthenticationParameters": HIDDEN,
            TOPICS: "8",
        }
        await built.one.set("dryRun", "true")
        assert await built.written() == {**foreign, "dryRun": "true"}
