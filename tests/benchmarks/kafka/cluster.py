"""Three brokers of Kafka on ZooKeeper, and the operator who asks things of them."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from broker_ctl.lab.embedded.ports import LOOPBACK, port_of, reserve_port
from tests.benchmarks.kafka.release import Release
from tests.support.java.process import JavaProcess

CHROOT: Final = "/kafka"
_OPERATOR: Final = Path(__file__).with_name("Operator.java")
_READY_S: Final = 120.0
_ANSWER_S: Final = 300.0
_STARTED: Final = re.compile(r"\[KafkaServer id=\d+\] started")
# Groups: what for, partitions.
_FINISHED: Final = re.compile(
    r"^(\S+ \S+) .*\] Finished LeaderAndIsr request in \d+ms .* for (\d+) partitions"
)
_LOGGING: Final = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
"""


class KafkaBroker:
    """One broker; its port stays its own while it is down."""

    def __init__(
        self,
        release: Release,
        directory: Path,
        number: int,
        port: int,
        zk: str,
        *,
        heap_mb: int,
    ) -> None:
        self.number = number
        self.address = f"{LOOPBACK}:{port}"
        self._data = directory / "data"
        settings = (
            f"broker.id={number}",
            f"listeners=PLAINTEXT://{self.address}",
            f"zookeeper.connect={zk}{CHROOT}",
            "zookeeper.session.timeout.ms=6000",
            f"log.dirs={self._data}",
            # Leadership goes back only when the benchmark asks for it.
            "auto.leader.rebalance.enable=false",
            # An index is 10 MiB for each partition otherwise, before a record is written.
            "log.index.size.max.bytes=4096",
            "log.cleaner.enable=false",
        )
        self._process = JavaProcess(
            directory,
            (
                *(str(release.java), f"-Xmx{heap_mb}m", "-XX:+UseG1GC"),
                # Without memory it goes on for minutes, and answers nothing.
                *("-XX:+ExitOnOutOfMemoryError", "-cp", release.class_path),
                *("-Dlog4j.configuration=file:log4j.properties", "kafka.Kafka"),
                "server.properties",
            ),
            {"server.properties": "\n".join(settings), "log4j.properties": _LOGGING},
        )
        self._read = 0

    @property
    def pid(self) -> int | None:
        """None: it does not run."""
        return self._process.pid if self._process.is_running else None

    async def start(self) -> None:
        """Return once it serves."""
        self._skip()
        await self._process.start()

        async def has_started() -> bool:
            return any(map(_STARTED.search, self._new_lines()))

        await self._process.wait_until(has_started, _READY_S, f"broker {self.number} of Kafka")

    async def kill(self) -> None:
        """SIGKILL."""
        await self._process.kill()

    async def stop(self) -> None:
        """SIGTERM: it asks the controller to be let go."""
        await self._process.stop()

    def assert_running(self) -> None:
        """Assert that it has not ended; with the end of its log."""
        assert self._process.is_running, (
            f"broker {self.number} of Kafka ended\n{self._process.log_tail()}"
        )

    def has_deleted_logs(self) -> bool:
        """Whether it has logs whose partitions are deleted, but their files are not."""
        return any(self._data.glob("*-delete"))

    def finished(self, since_s: float) -> list[tuple[float, int]]:
        """Instructions that it has carried out: when (wall clock, s), for how many partitions.

        Each is returned once.
        """
        found = []
        for line in self._new_lines():
            if (match := _FINISHED.match(line)) is not None:
                at_s = datetime.fromisoformat(match[1].replace(",", ".")).timestamp()
                if at_s >= since_s:
                    found.append((at_s, int(match[2])))
        return found

    def _new_lines(self) -> list[str]:
        if not self._process.log.exists():
            return []
        with self._process.log.open("rb") as log:
            log.seek(self._read)
            whole = log.read().rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        return whole.decode(errors="replace").splitlines()

    def _skip(self) -> None:
        self._new_lines()


class Operator:
    """A client of Kafka's own library; see `Operator.java` for what it can be asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, *words: object) -> tuple[float, float]:
        """When it began and when it was done, on the wall clock in s.

        Raises:
            AssertionError: it ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{' '.join(map(str, words))}\n".encode())
        async with asyncio.timeout(_ANSWER_S):
            answer = (await self._process.stdout.readline()).split()
        assert answer[:1] == [b"done"], f"{words}: the operator of Kafka ended"
        return int(answer[1]) / 1000, int(answer[2]) / 1000


@asynccontextmanager
async def operator(release: Release, address: str) -> AsyncIterator[Operator]:
    """A process that is compiled from its source."""
    process = await asyncio.create_subprocess_exec(
        *(str(release.java), "-cp", release.class_path, str(_OPERATOR), address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
    )
    try:
        yield Operator(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def kafka_brokers(
    release: Release, directory: Path, zookeeper: str, count: int, heap_mb: int
) -> AsyncIterator[dict[int, KafkaBroker]]:
    """Brokers 1 to ``count``, by id; the first one to start is the controller."""
    async with AsyncExitStack() as stack:
        brokers: dict[int, KafkaBroker] = {}
        for number in range(1, count + 1):
            port = port_of(stack.enter_context(reserve_port()))
            home = directory / f"kafka-{number}"
            broker = KafkaBroker(release, home, number, port, zookeeper, heap_mb=heap_mb)
            stack.push_async_callback(broker.kill)
            await broker.start()
            brokers[number] = broker
        yield brokers
