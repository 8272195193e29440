"""Lookups as a client makes them, hop by hop: none goes in a circle, none is refused for good.

A cold bundle takes two redirects: to the leader, and to the broker that it chose. While leaders
change more may come together, and a broker that does not answer ends the attempt. During a
fault a client must get an answer after which it asks again: 503, never that the topic, the
namespace or the request were wrong.
"""

from collections import Counter
from typing import Final
from urllib.parse import quote, urljoin

from broker_ctl.core.model.names import Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient

# Pulsar's clients give up after 20; a lookup that takes half of that goes in a circle.
MOST_HOPS: Final = 10
_FOUND: Final = 200
_ON: Final = 307
_LATER: Final = 503


class Lookups:
    """Asks, and keeps what came of it.

    Attributes:
        hops: of the lookups that found an owner, by how many redirects it took.
        statuses: of all attempts; 0: a broker on the way did not answer.
        violations: answers that no client may get.
    """

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self.hops: Counter[int] = Counter()
        self.statuses: Counter[int] = Counter()
        self.violations: list[str] = []

    async def ask(self, url: str, topic: Topic) -> int:
        """One attempt that begins at a broker; the status in the end."""
        where = f"{url}/lookup/v2/topic/{topic.domain}/{topic.namespace}/{quote(topic.local, '')}"
        way: list[str] = []
        status = await self._follow(where, way)
        self.statuses[status] += 1
        if status == _FOUND:
            self.hops[len(way) - 1] += 1
        if len(way) > MOST_HOPS:
            self.violations.append(f"lookups: {topic} was sent round: {' > '.join(way)}")
        elif status not in {_FOUND, _LATER, 0}:
            self.violations.append(f"lookups: {topic} was answered {status} at {way[-1]}")
        return status

    async def _follow(self, where: str, way: list[str]) -> int:
        while len(way) <= MOST_HOPS:
            way.append(where)
            try:
                reply = await self._http.request("GET", where)
            except HttpError:
                return 0
            if reply.status != _ON:
                return reply.status
            where = urljoin(where, reply.headers["Location"])
        return _ON
