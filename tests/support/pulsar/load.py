"""The process of `traffic`, and what its outcome says."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pulsar

from tests.support.pulsar import traffic
from tests.support.pulsar.traffic import Flow, Sent, read_outcome

_READY_S = 300.0
_END_S = 90.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was sent and received, by topic."""

    topics: Mapping[str, Sent]

    @property
    def sent(self) -> int:
        return sum(len(sent.at_s) for sent in self.topics.values())

    @property
    def unacknowledged(self) -> int:
        """Sends that were never answered, or refused."""
        return sum(sent.took_s.count(None) for sent in self.topics.values())

    @property
    def lost(self) -> int:
        """Messages that were acknowledged and never arrived."""
        return sum(
            took is not None and not sent.received[number]
            for sent in self.topics.values()
            for number, took in enumerate(sent.took_s)
        )

    @property
    def repeated(self) -> int:
        """Deliveries of a message after its first one."""
        return sum(times - 1 for sent in self.topics.values() for times in sent.received.values())

    @property
    def disordered(self) -> int:
        """Messages that arrived for the first time after a later one of their topic."""
        return sum(sent.disordered for sent in self.topics.values())

    @property
    def waits_s(self) -> list[float]:
        """How long each answered send took."""
        return [took for sent in self.topics.values() for took in sent.took_s if took is not None]

    @property
    def unknown(self) -> int:
        """Ids that arrived and that nobody sent."""
        return sum(
            number >= len(sent.at_s) for sent in self.topics.values() for number in sent.received
        )

    def longest_wait_s(self, topics: Iterable[str], since_s: float, until_s: float) -> float:
        """The longest send to one of these topics that was under way between two instants."""
        return max(
            (
                took
                for topic in topics
                for at, took in zip(self.topics[topic].at_s, self.topics[topic].took_s, strict=True)
                if took is not None and at <= until_s and at + took >= since_s
            ),
            default=0.0,
        )


class Load:
    """A running load: `end` it early, or let its time pass."""

    def __init__(self, process: asyncio.subprocess.Process, seconds: float, file: Path) -> None:
        self._process = process
        self._deadline_s = seconds + _END_S
        self._file = file

    async def end(self) -> Outcome:
        """Have it stop sending now, and wait for its outcome."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await self.outcome()

    async def outcome(self) -> Outcome:
        """Wait until its time is over and all has arrived, or too long after that."""
        async with asyncio.timeout(self._deadline_s):
            assert await self._process.wait() == 0
        return Outcome(read_outcome(self._file))


@asynccontextmanager
async def load(
    directory: Path, service_url: str, flows: Sequence[Flow], seconds: float
) -> AsyncIterator[Load]:
    """Send ``flows`` for at most ``seconds``; all producers and consumers are connected inside."""
    plan, outcome = directory / "flows.json", directory / "outcome.json"
    plan.write_text(json.dumps([asdict(flow) for flow in flows]), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", traffic.__name__),
        *(service_url, str(plan), str(seconds), str(outcome)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_READY_S):
            assert await process.stdout.readline() == b"ready\n"
        yield Load(process, seconds, outcome)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@contextmanager
def idle_producers(service_url: str, topics: Iterable[str]) -> Iterator[None]:
    """One more producer for each of these, which sends nothing: producers are not consumers."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        held = [client.create_producer(topic) for topic in topics]
        yield
        held.clear()
    finally:
        client.close()
