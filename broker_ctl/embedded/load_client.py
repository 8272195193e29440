"""A client that keeps looking topics up, as the clients of a cluster do.

Each topic is looked up until its owner is known, with Pulsar's back-off in between, and again
every few seconds: so bundles that lost their owner find a new one.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from broker_ctl.core.names import Topic
from broker_ctl.errors import HttpError
from broker_ctl.http import HttpClient, HttpReply

# Pulsar's client: 100 ms doubling to 60 s, less up to a tenth.
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 60.0
_JITTER: Final = 0.1
_MAX_REDIRECTS: Final = 20
_AGAIN_S: Final = 2.0


@dataclass(slots=True)
class LoadClientStatistics:
    """What the client met so far."""

    lookups: int = 0
    failures: int = 0


class LoadClient:
    """Looks up every topic of a workload at one of several brokers, chosen anew each time."""

    def __init__(
        self,
        http: HttpClient,
        broker_urls: Sequence[str],
        topics: Sequence[str],
        draw: random.Random,
    ) -> None:
        self._http = http
        self._broker_urls = broker_urls
        self._topics = [Topic.parse(topic) for topic in topics]
        self._draw = draw
        self.owners: dict[str, str] = {}
        self.statistics = LoadClientStatistics()

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            for topic in self._topics:
                group.create_task(self._follow(topic), name=f"look up {topic}")

    async def _follow(self, topic: Topic) -> None:
        failures = 0
        # Clients do not start all in one moment.
        await asyncio.sleep(self._draw.uniform(0, 1))
        while True:
            owner = await self._look_up(topic)
            if owner is not None:
                self.owners[str(topic)] = owner
                failures = 0
                await asyncio.sleep(self._draw.uniform(_AGAIN_S / 2, _AGAIN_S))
            else:
                failures += 1
                pause_s = min(_FIRST_PAUSE_S * 2 ** (failures - 1), _MAX_PAUSE_S)
                await asyncio.sleep(pause_s * self._draw.uniform(1 - _JITTER, 1))

    async def _look_up(self, topic: Topic) -> str | None:
        """The owner's broker URL; None: ask again later."""
        self.statistics.lookups += 1
        path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
        try:
            reply = await self._first_reply(f"/lookup/v2/topic/{path}")
            for _ in range(_MAX_REDIRECTS):
                if reply.status != 307:
                    return self._answer(reply)
                reply = await self._http.request("GET", reply.headers["Location"])
        except (HttpError, KeyError):
            pass
        self.statistics.failures += 1
        return None

    async def _first_reply(self, path: str) -> HttpReply:
        """Of one broker, or of the next where that one is gone, as a client with several hosts."""
        *urls, last = self._draw.sample(self._broker_urls, len(self._broker_urls))
        for url in urls:
            with suppress(HttpError):
                return await self._http.request("GET", url + path)
        return await self._http.request("GET", last + path)

    def _answer(self, reply: HttpReply) -> str | None:
        if reply.status == 200:
            return str(reply.json()["brokerUrl"])
        self.statistics.failures += 1
        return None
