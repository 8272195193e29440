"""A real Pulsar cluster of one machine: ZooKeeper (ours), a bookie, and brokers.

Its processes are children of the thread that `SharedEnsemble` has for its servers: tests with
different loops share one cluster, and all of it dies with the test process.
"""

import asyncio
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.ports import LOOPBACK, port_of, reserve_port
from tests.support.java.process import JavaProcess
from tests.support.pulsar.distribution import Distribution
from tests.support.pulsar.files import (
    CLUSTER,
    LOG4J2,
    LOGGING,
    SMALL,
    Java,
    bookie_conf,
    broker_conf,
)
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.ensemble import LoopThread

_BROKER_MAIN: Final = "org.apache.pulsar.PulsarBrokerStarter"
_BOOKIE_MAIN: Final = "org.apache.bookkeeper.server.Main"
_SETUP_MAIN: Final = "org.apache.pulsar.PulsarClusterMetadataSetup"
_READY_S: Final = 240.0
_ADMIN_S: Final = 60.0
_MAX_REPLY_BYTES: Final = 64 << 20


class PulsarBroker:
    """One broker of a `PulsarCluster`; its ports stay its own while it is down."""

    def __init__(self, process: JavaProcess, web_port: int, port: int, ours: LoopThread) -> None:
        self._process = process
        self._thread = ours
        self.id = f"{LOOPBACK}:{web_port}"
        self.url = f"http://{self.id}"
        self.service_url = f"pulsar://{LOOPBACK}:{port}"

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._process.log

    async def kill(self) -> None:
        """End it as a crash would: its session, and what it owns, stay until they expire."""
        await self._thread.call(self._process.kill())

    async def stop(self) -> None:
        """End it in order: it unloads what it owns."""
        await self._thread.call(self._process.stop())

    async def start(self) -> None:
        """Start it again and wait until it serves."""
        await self._thread.call(self._start())

    def pause(self) -> None:
        """Stop the world for it, until `resume`."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)

    async def _start(self) -> None:
        await self._process.start()
        await self.wait_ready()

    async def wait_ready(self) -> None:
        """Wait, in the cluster's own loop, until it answers and is registered."""
        async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=_MAX_REPLY_BYTES) as http:

            async def serves() -> bool:
                try:
                    reply = await http.request("GET", f"{self.url}/admin/v2/brokers/{CLUSTER}")
                except HttpError:
                    return False
                return reply.status == 200 and self.id in reply.json()

            await self._process.wait_until(serves, _READY_S, f"broker {self.id}")


class PulsarCluster:
    """A running cluster; to be used from any loop.

    Attributes:
        zookeeper: ``host:port``, as clients take it; Pulsar's nodes stand at the root.
    """

    def __init__(
        self,
        directory: Path,
        pulsar: Distribution,
        thread: LoopThread,
        zookeeper: str,
        *,
        brokers: int,
        settings: Mapping[str, str],
        java: Java,
    ) -> None:
        self._directory = directory
        self._pulsar = pulsar
        self._thread = thread
        self._held = ExitStack()
        self.zookeeper = zookeeper
        self._bookie_port = self._port()
        self._bookie = self._java(
            "bookie",
            (_BOOKIE_MAIN, "--conf", "bookie.conf"),
            {"bookie.conf": bookie_conf(zookeeper, self._bookie_port)},
        )
        self.brokers = tuple(
            self._broker(number, settings, java) for number in range(1, brokers + 1)
        )

    @property
    def admin_url(self) -> str:
        """The web address of the first broker that runs."""
        return self.running[0].url

    @property
    def service_url(self) -> str:
        """Where clients start: all brokers that run."""
        hosts = ",".join(broker.service_url.removeprefix("pulsar://") for broker in self.running)
        return f"pulsar://{hosts}"

    @property
    def running(self) -> tuple[PulsarBroker, ...]:
        return tuple(broker for broker in self.brokers if broker.is_running)

    def broker(self, broker_id: str) -> PulsarBroker:
        """The one with this ``host:port``, a ``http://`` before it or not."""
        name = broker_id.removeprefix("http://")
        (found,) = (broker for broker in self.brokers if broker.id == name)
        return found

    async def admin(
        self, method: str, path: str, json: Any = None, *, broker: PulsarBroker | None = None
    ) -> HttpReply:
        """One request below ``/admin/v2/``; redirects are followed."""
        base = self.admin_url if broker is None else broker.url
        async with HttpClient(timeout_s=_ADMIN_S, max_body_bytes=_MAX_REPLY_BYTES) as http:
            url = f"{base}/admin/v2/{path}"
            return await http.request(method, url, json=json, allow_redirects=True)

    async def get(self, path: str, *, broker: PulsarBroker | None = None) -> Any:
        """What is at ``path`` below ``/admin/v2/``."""
        reply = await self.admin("GET", path, broker=broker)
        assert reply.status == 200, (path, reply.status, reply.body)
        return reply.json()

    async def put(self, path: str, json: Any = None) -> None:
        """An act below ``/admin/v2/`` that must go well."""
        reply = await self.admin("PUT", path, json)
        assert reply.status in (200, 204), (path, reply.status, reply.body)

    async def make_namespace(self, name: str, bundles: int) -> None:
        """A namespace, ``tenant/local``, of an existing tenant, with bundles of one size."""
        await self.put(f"namespaces/{name}", {"bundles": {"numBundles": bundles}})

    async def configure(self, key: str, value: str) -> None:
        """Change a dynamic setting of all brokers."""
        reply = await self.admin("POST", f"brokers/configuration/{key}/{value}")
        assert reply.status in (200, 204), (key, reply.status, reply.body)

    async def start(self) -> None:
        """Start all of it, in the cluster's own loop."""
        setup = self._java("setup", self._setup_command(), {})
        await setup.start()
        assert await setup.wait() == 0, setup.log_tail()
        async with asyncio.TaskGroup() as group:
            for process in (self._bookie, *(broker._process for broker in self.brokers)):
                group.create_task(process.start(), name="start a Pulsar process")
        await self._bookie.wait_until(self._is_bookie_up, _READY_S, "the bookie")
        for broker in self.brokers:
            await broker.wait_ready()

    async def stop(self) -> None:
        """End all of it at once, in the cluster's own loop: nothing of it is needed any more."""
        for process in (self._bookie, *(broker._process for broker in self.brokers)):
            if process.is_running:
                await process.kill()
        self._held.close()

    async def _is_bookie_up(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, self._bookie_port)
        except OSError:
            return False
        writer.close()
        return True

    def _setup_command(self) -> tuple[str, ...]:
        first = self.brokers[0]
        store = f"zk:{self.zookeeper}"
        return (
            *(_SETUP_MAIN, "--cluster", CLUSTER, "-md", store, "-cms", store),
            *("--web-service-url", first.url, "--broker-service-url", first.service_url),
        )

    def _broker(self, number: int, settings: Mapping[str, str], java: Java) -> PulsarBroker:
        web, native = self._port(), self._port()
        process = self._java(
            f"broker-{number}",
            (_BROKER_MAIN, "--broker-conf", "broker.conf"),
            {"broker.conf": broker_conf(self.zookeeper, web, native, settings)},
            java,
        )
        return PulsarBroker(process, web, native, self._thread)

    def _java(
        self, name: str, main: tuple[str, ...], files: Mapping[str, str], java: Java = SMALL
    ) -> JavaProcess:
        jvm = (str(self._pulsar.java), *java.options, "-cp", self._pulsar.class_path)
        return JavaProcess(self._directory / name, (*jvm, *main), {LOG4J2: LOGGING, **files})

    def _port(self) -> int:
        return port_of(self._held.enter_context(reserve_port()))


@contextmanager
def pulsar_cluster(
    directory: Path,
    pulsar: Distribution,
    *,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    java: Java = SMALL,
) -> Iterator[PulsarCluster]:
    """Run a cluster below ``directory``, which is removed with it.

    Args:
        settings: of every broker's ``broker.conf``, before those of the tests' own.
        java: the JVM of every broker.
    """
    with LoopThread("Pulsar cluster") as thread:
        ensemble = Ensemble.of(directory / "zookeeper", heap_mb=192)
        cluster: PulsarCluster | None = None
        try:
            thread.run(ensemble.start())
            cluster = PulsarCluster(
                directory,
                pulsar,
                thread,
                ensemble.connect_string,
                brokers=brokers,
                settings=settings or {},
                java=java,
            )
            thread.run(cluster.start())
            yield cluster
        finally:
            if cluster is not None:
                thread.run(cluster.stop())
            thread.run(ensemble.stop())
            shutil.rmtree(directory)
