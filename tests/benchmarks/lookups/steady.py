"""Lookups at one daemon while nothing else happens, by turns with the peer on the same core."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from broker_ctl.store import paths
from tests.benchmarks.lookups.asking import Asking, ask
from tests.benchmarks.lookups.bare import bare_server
from tests.benchmarks.lookups.cluster import Cluster
from tests.benchmarks.lookups.cores import pin
from tests.benchmarks.lookups.scene import Scene, path
from tests.benchmarks.progress import report_progress

NAMESPACE: Final = "public/lookups"
RATE: Final = 2000.0
_AT_ONCE: Final = 16
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
        self._http = Asking(
            port=cluster.http_port,
            pid=cluster.asked_pid,
            namespace=NAMESPACE,
            topics=sizes.topics,
            lines=sizes.lines,
            depth=1,
            warm_s=sizes.warm_s,
            measured_s=sizes.closed_s,
        )

    async def lay(self) -> dict[str, Any]:
        """Create the namespace; the leader chooses owners for two thirds of it."""
        await self._cluster.make_namespace(NAMESPACE, self._sizes.bundles)
        waiting = iter(self._scene.one_in_each_owned())

        async def own() -> None:
            for number in waiting:
                url = self._cluster.asked.url + path(NAMESPACE, number)
                reply = await self._cluster.http.request("GET", url, allow_redirects=True)
                assert reply.status == 200, reply.body

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

    async def check_owners(self) -> None:
        """As many bundles are owned as shall be."""
        owned = await self._cluster.store.children(paths.ownership_of(self._scene.ring.namespace))
        assert len(owned) == len(self._scene.one_in_each_owned())

    async def measure_http(self) -> dict[str, Any]:
        """Ours and the peer, round by round."""
        async with self._peer() as bare:
            fast = await self._by_turns(self._http, bare, 0)
            paced = await self._by_turns(self._http, bare, RATE)
        ours_s, bare_s = (_median(rounds, "rate") for rounds in fast)
        return {
            "http_lookups_s": ours_s,
            "http_p99_ms_at_2000": _median(paced[0], "p99_ms"),
            "bare_aiohttp_s": bare_s,
            "http_to_bare_ratio": round(ours_s / bare_s, 3),
            "bare_p99_ms_at_2000": _median(paced[1], "p99_ms"),
            "http_rounds": {
                "ours": fast[0],
                "bare": fast[1],
                "ours_at_2000": paced[0],
                "bare_at_2000": paced[1],
            },
        }

    async def measure_binary(self) -> dict[str, Any]:
        """Ours alone; there is no peer of this kind."""
        task = replace(
            self._http,
            port=self._cluster.asked.lookup_port,
            depth=self._sizes.depth,
            is_binary=True,
        )
        fast = [await self._ours(task) for _ in range(self._sizes.rounds)]
        paced = [await self._ours(self._at(task, RATE)) for _ in range(self._sizes.rounds)]
        return {
            "binary_lookups_s": _median(fast, "rate"),
            "binary_p99_ms_at_2000": _median(paced, "p99_ms"),
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
            yield replace(self._http, port=port, pid=pid)

    async def _by_turns(
        self, ours: Asking, bare: Asking, rate: float
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for _ in range(self._sizes.rounds):
            found[0].append(await self._ours(self._at(ours, rate)))
            found[1].append(await ask(self._at(bare, rate)))
            report_progress(f"{found[0][-1]} / {found[1][-1]}")
        return found

    def _at(self, task: Asking, rate: float) -> Asking:
        length_s = self._sizes.open_s if rate else self._sizes.closed_s
        return replace(task, rate=rate, measured_s=length_s)

    async def _ours(self, task: Asking) -> dict[str, Any]:
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


def _median(rounds: Sequence[dict[str, Any]], key: str) -> float:
    return round(float(statistics.median(one[key] for one in rounds)), 3)
