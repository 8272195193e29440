"""Lookups at one daemon while nothing else happens, by turns with the peer on the same core."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from broker_ctl.store import paths
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.asking import Asking, ask
from tests.benchmarks.lookups.bare import bare_server
from tests.benchmarks.lookups.cluster import Cluster
from tests.benchmarks.lookups.cores import pin
from tests.benchmarks.lookups.scene import Scene, path

NAMESPACE: Final = "public/lookups"
RATE: Final = 2000.0
_AT_ONCE: Final = 16
_MOST_REDIRECTS: Final = 10
_SHARED_SCRAPE_S: Final = 1.1
_COUNTED: Final = {
    "connect": "pulsar_broker_lookup_answers",
    "redirect": "pulsar_broker_lookup_redirects",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything.

    Attributes:
        rounds: so often both are asked in turn.
        lines: connections; ``depth`` lookups are on their way on one of the binary protocol.
    """

    topics: int = 10_000
    bundles: int = 1_000
    rounds: int = 5
    warm_s: float = 1.0
    closed_s: float = 5.0
    open_s: float = 10.0
    lines: int = 32
    depth: int = 4


class Steady:
    """One scene at one daemon."""

    def __init__(self, cluster: Cluster, sizes: Sizes, core: int) -> None:
        self._cluster = cluster
        self._sizes = sizes
        self._core = core
        self._scene = Scene.of(NAMESPACE, sizes.topics, sizes.bundles)
        self.http = Asking(
            port=cluster.http_port,
            pid=cluster.asked_pid,
            namespace=NAMESPACE,
            topics=sizes.topics,
            lines=sizes.lines,
            depth=1,
            warm_s=sizes.warm_s,
            measured_s=sizes.closed_s,
            token=cluster.client_token,
        )
        self.binary = replace(
            self.http, port=cluster.asked.lookup_port, depth=sizes.depth, is_binary=True
        )

    async def lay(self) -> dict[str, Any]:
        """Create the namespace; the leader chooses owners for two thirds of it."""
        await self._cluster.make_namespace(NAMESPACE, self._sizes.bundles)
        waiting = iter(self._scene.one_in_each_owned())

        async def own() -> None:
            for number in waiting:
                await self._own(number)

        async with asyncio.TaskGroup() as group:
            for number in range(_AT_ONCE):
                group.create_task(own(), name=f"own {number}")
        await self.check_owners()
        redirected = len(self._scene.unowned)
        report_progress(
            f"{redirected} of {self._sizes.topics} topics are in bundles without an owner"
        )
        return {
            "topics": self._sizes.topics,
            "bundles": self._sizes.bundles,
            "redirected_ratio": round(redirected / self._sizes.topics, 3),
        }

    async def _own(self, number: int) -> None:
        url = self._cluster.asked.url + path(NAMESPACE, number)
        for _ in range(_MOST_REDIRECTS):
            reply = await self._cluster.http.request("GET", url)
            if reply.status != 307:
                break
            # Each with the token of the client: a redirect that is followed has none.
            url = reply.headers["Location"]
        assert reply.status == 200, reply.body

    async def check_owners(self) -> None:
        """As many bundles are owned as shall be."""
        # The server of this client may lag behind that of an owner.
        await self._cluster.store.sync("/")
        owned = await self._cluster.store.children(paths.ownership_of(self._scene.ring.namespace))
        assert len(owned) == len(self._scene.one_in_each_owned()), len(owned)

    async def measure_http(self) -> dict[str, Any]:
        """Ours and the peer, round by round."""
        async with self._peer() as bare:
            fast = await self._beside(bare, 0)
            paced = await self._beside(bare, RATE)
        ours_s, bare_s = (median(rounds, "rate") for rounds in fast)
        ours_cpu_s, bare_cpu_s = (median(rounds, "per_cpu_s") for rounds in fast)
        return {
            "http_lookups_s": ours_s,
            "http_p99_ms_at_2000": median(paced[0], "p99_ms"),
            "bare_aiohttp_s": bare_s,
            "http_to_bare_ratio": round(ours_s / bare_s, 3),
            "http_to_bare_cpu_ratio": round(ours_cpu_s / bare_cpu_s, 3),
            "bare_p99_ms_at_2000": median(paced[1], "p99_ms"),
            "http_rounds": {
                "ours": fast[0],
                "bare": fast[1],
                "ours_at_2000": paced[0],
                "bare_at_2000": paced[1],
            },
        }

    async def measure_binary(self) -> dict[str, Any]:
        """Ours alone; there is no peer of this kind."""
        fast = [await self.ours(self.binary) for _ in range(self._sizes.rounds)]
        paced = [await self.ours(self._at_rate(self.binary)) for _ in range(self._sizes.rounds)]
        return {
            "binary_lookups_s": median(fast, "rate"),
            "binary_p99_ms_at_2000": median(paced, "p99_ms"),
            "binary_rounds": {"ours": fast, "ours_at_2000": paced},
        }

    @asynccontextmanager
    async def _peer(self) -> AsyncIterator[Asking]:
        """It answers what a lookup of an owned bundle is answered."""
        number = self._scene.one_in_each_owned()[0]
        url = self._cluster.asked.url + path(NAMESPACE, number)
        reply = await self._cluster.http.request("GET", url)
        assert reply.status == 200, reply.body
        async with bare_server(reply.body) as (port, pid):
            pin(pid, {self._core})
            yield replace(self.http, port=port, pid=pid)

    async def _beside(self, bare: Asking, rate: float) -> Sequence[Sequence[dict[str, Any]]]:
        tasks = (self.http, bare)
        ours, theirs = (self._at_rate(task) if rate else task for task in tasks)
        return await by_turns([partial(self.ours, ours), partial(ask, theirs)], self._sizes.rounds)

    def _at_rate(self, task: Asking) -> Asking:
        return replace(task, rate=RATE, measured_s=self._sizes.open_s)

    async def ours(self, task: Asking) -> dict[str, Any]:
        """What was answered is what the scene says, and what the daemon says that it answered."""
        before = await self._counted()
        found = await ask(task)
        after = await self._counted()
        answers = found["answers"]
        assert {kind: after[kind] - before[kind] for kind in _COUNTED} == answers
        assert answers["redirect"] == self._scene.redirects_among(sum(answers.values()))
        return found

    async def _counted(self) -> dict[str, int]:
        # Scrapes of one second share what was counted at its begin.
        await asyncio.sleep(_SHARED_SCRAPE_S)
        reply = await self._cluster.http.request("GET", f"{self._cluster.asked.url}/metrics")
        totals = {
            family.name: family.samples[0].value
            for family in text_string_to_metric_families(reply.body.decode())
            if family.name in _COUNTED.values()
        }
        return {kind: int(totals[name]) for kind, name in _COUNTED.items()}


async def by_turns(
    contestants: Sequence[Callable[[], Awaitable[dict[str, Any]]]], rounds: int
) -> Sequence[Sequence[dict[str, Any]]]:
    """Each measures once in a round; the rounds of each."""
    found: Sequence[list[dict[str, Any]]] = [[] for _ in contestants]
    for _ in range(rounds):
        for one, measure in zip(found, contestants, strict=True):
            one.append(await measure())
        report_progress(" / ".join(f"{one[-1]}" for one in found))
    return found


def median(rounds: Sequence[dict[str, Any]], key: str) -> float:
    """Of a figure of some rounds."""
    return round(float(statistics.median(one[key] for one in rounds)), 3)
