"""How often a real Pulsar cluster honours the destination of an unload, with and without claims.

    python -m tests.benchmarks.beside_pulsar.destinations [--json] [--rounds N] [--quick]

Every bundle of a namespace with traffic is unloaded to another broker, over and over, once with the
destination alone and once claimed by lookups, as `attach` does. Both sides take turns bundle by
bundle, on one cluster of the release that `tests/pulsar/pom.xml` names, with its modular manager.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import cycle
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.reader import claiming
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.http_client import HttpClient
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import distribution
from tests.support.pulsar.load import Outcome, load
from tests.support.pulsar.skew import flows, owners_of, topics_of, wait_reported
from tests.support.time.waiting import eventually

NAMESPACE: Final = "public/claimed"
BUNDLES: Final = 6
TOPICS: Final = 48
PER_SECOND: Final = 240.0
BYTES: Final = 100
LONGEST_S: Final = 600.0
# A client that was cut off asks again after a while, doubled each time.
AFTERMATH_S: Final = 5.0


class Side:
    """One way to unload, and what came of it."""

    def __init__(self, *, claims: bool) -> None:
        self.claims = claims
        self.honoured: list[bool] = []
        self.spans: list[tuple[str, float, float]] = []

    def summary(self, outcome: Outcome, topics: dict[str, str]) -> dict[str, Any]:
        waits = [
            1000 * outcome.longest_wait_s(named, began_s, ended_s + AFTERMATH_S)
            for bundle, began_s, ended_s in self.spans
            if (named := [topic for topic, owner in topics.items() if owner == bundle])
        ]
        return {
            "moves": len(self.honoured),
            "honoured": sum(self.honoured),
            "interruption_ms_p50": round(median(waits), 1) if waits else None,
            "interruption_ms_max": round(max(waits), 1) if waits else None,
        }


async def move(cluster: PulsarCluster, admin: PulsarAdmin, bundle: str, side: Side) -> None:
    """Unload a bundle to the broker after its owner."""
    ids = [broker.id for broker in cluster.brokers]
    owner = (await owners_of(cluster, NAMESPACE))[bundle]
    destination = ids[(ids.index(owner) + 1) % len(ids)]
    one, began_s = Bundle.parse(bundle), monotonic()
    guard: AbstractAsyncContextManager[None] = nullcontext()
    if side.claims:
        guard = claiming(admin, one, destination, lambda: None, rng=random.Random(1))

    async def taken() -> str | None:
        return (await owners_of(cluster, NAMESPACE)).get(bundle)

    async with guard:
        await admin.unload(one, destination)
        taker = await eventually(taken, deadline_s=60.0, what=f"{bundle} is taken", poll_s=0.05)
    side.honoured.append(taker == destination)
    side.spans.append((bundle, began_s, monotonic()))


async def measure(cluster: PulsarCluster, scratch: Path, rounds: int) -> dict[str, Any]:
    """Both sides in turns."""
    await cluster.make_namespace(NAMESPACE, BUNDLES)
    chosen = flows(NAMESPACE, TOPICS, PER_SECOND, BYTES)
    sides = Side(claims=False), Side(claims=True)
    urls = {each.id: BrokerUrls(each.id, each.url) for each in cluster.brokers}
    async with (
        HttpClient(timeout_s=30.0, max_body_bytes=1 << 24) as http,
        load(scratch, cluster.service_url, chosen, LONGEST_S) as running,
    ):
        served = tuple(broker.url for broker in cluster.brokers)
        admin = PulsarAdmin(served, http, lambda: urls, act_timeout_s=60.0)
        await wait_reported(cluster, TOPICS, PER_SECOND)
        topics = await topics_of(cluster, NAMESPACE, [flow.topic for flow in chosen])
        turns = cycle(sides)
        for _ in range(rounds):
            for bundle in sorted(set(topics.values())):
                await move(cluster, admin, bundle, next(turns))
            next(turns)  # each bundle gets the other side in the next round
        outcome = await running.end()
    return {
        "destination_alone": sides[0].summary(outcome, topics),
        "claimed": sides[1].summary(outcome, topics),
        "sent": outcome.sent,
        "lost": outcome.lost,
    }


def main(arguments: Sequence[str]) -> int:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    wants = parser.parse_args(arguments)
    pulsar = distribution()
    with (
        tempfile.TemporaryDirectory() as scratch,
        pulsar_cluster(Path(scratch, "cluster"), pulsar) as cluster,
    ):
        rounds = 2 if wants.quick else wants.rounds
        found = {"pulsar": pulsar.version, **asyncio.run(measure(cluster, Path(scratch), rounds))}
    sys.stdout.write(f"{json.dumps(found, indent=None if wants.json else 2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
