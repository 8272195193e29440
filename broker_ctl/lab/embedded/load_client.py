"""A client that looks topics up continuously, as the clients of a cluster do.

Each topic is looked up every few seconds, so that bundles without an owner get one. A lookup is
retried, with Pulsar's back-off and at other brokers, until it finds the owner or Pulsar's timeout
is over.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from broker_ctl.core.model.names import Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient

# Pulsar's client: 100 ms, doubling, minus up to 10 % jitter, for at most 30 s.
_FIRST_PAUSE_S: Final = 0.1
_JITTER: Final = 0.1
_TIMEOUT_S: Final = 30.0
_AGAIN_S: Final = 2.0


@dataclass(slots=True)
class LoadClientStatistics:
    """Counts of the client; ``failures`` are lookups without an answer in time."""

    lookups: int = 0
    failures: int = 0


class LoadClient:
    """Looks up every topic of a workload at one of several brokers, chosen at random each time."""

    def __init__(
        self,
        http: HttpClient,
        broker_urls: Sequence[str],
        topics: Sequence[str],
        rng: random.Random,
    ) -> None:
        self._http = http
        self._broker_urls = broker_urls
        self._topics = [Topic.parse(topic) for topic in topics]
        self._rng = rng
        self.owners: dict[str, str] = {}
        self.statistics = LoadClientStatistics()

    async def run(self) -> None:
        """Look up until cancelled."""
        async with asyncio.TaskGroup() as group:
            for topic in self._topics:
                group.create_task(self._follow(topic), name=f"look up {topic}")

    async def _follow(self, topic: Topic) -> None:
        # Spread over time, as clients do not start at once.
        await asyncio.sleep(self._rng.uniform(0, 1))
        while True:
            await self._look_up(topic)
            await asyncio.sleep(self._rng.uniform(_AGAIN_S / 2, _AGAIN_S))

    async def _look_up(self, topic: Topic) -> None:
        self.statistics.lookups += 1
        path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
        pause_s = _FIRST_PAUSE_S
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while (owner := await self._ask(f"/lookup/v2/topic/{path}")) is None:
                    await asyncio.sleep(pause_s * self._rng.uniform(1 - _JITTER, 1))
                    pause_s *= 2
        except TimeoutError:
            self.statistics.failures += 1
        else:
            self.owners[str(topic)] = owner

    async def _ask(self, path: str) -> str | None:
        """The owner's broker URL; None: retry later.

        If a broker, or one that it redirects to, is gone, the next one is asked.
        """
        for url in self._rng.sample(self._broker_urls, len(self._broker_urls)):
            with suppress(HttpError, KeyError):
                reply = await self._http.request("GET", url + path, allow_redirects=True)
                return str(reply.json()["brokerUrl"]) if reply.status == HTTPStatus.OK else None
        return None
