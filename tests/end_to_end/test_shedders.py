"""Four daemons, one of which has everything: each shedder in turn, chosen at run time."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pytest

from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, make_namespace, status
from tests.support.time.waiting import eventually

BUNDLES: Final = 16
RING: Final = Ring.even(Namespace("public", "default"), BUNDLES)
START: Final = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerSheddingIntervalMinutes": "0.01",
    # What was just moved may be moved again: the shedders are to be compared, not slowed down.
    "loadBalancerSheddingGracePeriodMinutes": "0.001",
    "loadBalancerHistoryResourcePercentage": "0",
}
# By strategy: what it needs to act within a few cycles, and a part of the reason that it gives.
SHEDDERS: Final[Mapping[str, tuple[Mapping[str, str], str]]] = {
    "OverloadShedder": (
        {"loadBalancerBrokerOverloadedThresholdPercentage": "10"},
        "points above the limit of 10.0%",
    ),
    "ThresholdShedder": (
        {"loadBalancerBrokerThresholdShedderPercentage": "5"},
        "points above the mean of",
    ),
    "UniformLoadShedder": ({}, "% more; "),
    "org.apache.pulsar.broker.loadbalance.impl.AvgShedder": (
        {
            "loadBalancerAvgShedderLowThreshold": "5",
            "loadBalancerAvgShedderHighThreshold": "10",
            "loadBalancerAvgShedderHitCountHighThreshold": "2",
        },
        "points apart; ",
    ),
    "TransferShedder": (
        {
            "loadBalancerBrokerLoadTargetStd": "0.02",
            "loadBalancerSheddingConditionHitCountThreshold": "1",
            "loadBalanceSheddingDelayInSeconds": "0",
        },
        "usage deviates by",
    ),
}


class Admin:
    """What an operator does, over HTTP."""

    def __init__(self, http: HttpClient, daemons: Daemons) -> None:
        self._http = http
        self._daemons = daemons.all

    async def put(self, daemon: DaemonProcess, path: str) -> None:
        reply = await self._http.request("PUT", f"{daemon.url}/admin/v2/{path}")
        assert reply.status == 204, reply.body

    async def configure(self, settings: Mapping[str, str]) -> None:
        """At any broker; all of them follow."""
        for key, value in settings.items():
            url = f"{self._daemons[-1].url}/admin/v2/brokers/configuration/{key}/{value}"
            reply = await self._http.request("POST", url)
            assert reply.status == 204, reply.body

    async def owners(self) -> dict[str, str]:
        url = f"{self._daemons[0].url}/control/v1/owners?namespace={RING.namespace}"
        rows = (await self._http.request("GET", url)).json()
        return {row["bundle"]: row["owner"] for row in rows if row["owner"]}

    async def take_all(self, daemon: DaemonProcess) -> None:
        """By orders of the leader, given in its name."""
        _, epoch = await eventually(lambda: leader_of(self._http, self._daemons), what="a leader")
        for bundle in RING.bundles:
            order = {"epoch": epoch, "bundle": str(bundle)}
            reply = await self._http.request("POST", f"{daemon.url}/control/v1/acquire", json=order)
            assert reply.status == 200, reply.body

    async def bring_back(self, daemon: DaemonProcess) -> bool:
        """Whether all are at one broker; moves what is not."""
        strays = [key for key, owner in (await self.owners()).items() if owner != daemon.broker_id]
        for key in strays:
            url = f"{daemon.url}/admin/v2/namespaces/{key}/unload"
            query = f"destinationBroker={daemon.broker_id}"
            await self._http.request("PUT", f"{url}?{query}", allow_redirects=True)
        return not strays and len(await self.owners()) == BUNDLES

    async def transfers(self, words: str) -> list[dict[str, Any]]:
        """What the journal has of moves with this reason."""
        found = await leader_of(self._http, self._daemons)
        seen = {} if found is None else await status(self._http, found[0])
        decisions = [entry["decision"] for entry in seen.get("journal", [])]
        return [
            decision
            for decision in decisions
            if decision["kind"] == "transfer" and words in decision["detail"]
        ]


@pytest.mark.slow
async def test_each_shedder_acts_by_its_rule_and_gives_its_reason(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with new_cluster(4, **START) as daemons:
        await daemons.wait_ready(http)
        first = daemons.all[0]
        await make_namespace(http, first, BUNDLES)
        admin = Admin(http, daemons)
        await admin.take_all(first)
        for strategy, (settings, words) in SHEDDERS.items():
            await admin.configure(settings)
            await admin.configure(
                {
                    "loadBalancerLoadSheddingStrategy": strategy,
                    "loadBalancerSheddingEnabled": "true",
                }
            )
            acts = await eventually(partial(admin.transfers, words), deadline_s=30.0, what=strategy)
            assert first.broker_id in {act["source"] for act in acts}, acts
            owners = set((await admin.owners()).values())
            assert len(owners) > 1, strategy
            await admin.configure({"loadBalancerSheddingEnabled": "false"})
            await eventually(
                partial(admin.bring_back, first), deadline_s=30.0, poll_s=0.5, what="all back"
            )
