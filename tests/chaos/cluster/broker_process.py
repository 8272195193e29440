"""A broker process that serves: each topic of its bundles acts at every tick, on the shared log.

It keeps replicas, too, whose logs outlive it.

python -m tests.chaos.cluster.broker_process --port P --secret-file F --authority-url U
    --log-port L --broker ID --guard lease|tokens|none
    --number N --replica-port R --replica-logs DIRECTORY
"""

import argparse
import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from broker_ctl import codec
from broker_ctl.dataplane.webhook import wire
from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.tasks import TaskScope
from docs.examples.reference_broker import ReferenceBroker
from tests.chaos.cluster.replica_routes import ReplicaRoutes
from tests.chaos.cluster.topics import topics
from tests.chaos.judges.acts import Guard

TICK_S: Final = 0.2
_NS: Final = 1_000_000_000


class ActingBroker(ReferenceBroker):
    """Serves all topics of what is loaded, while its guard allows it."""

    def __init__(self, secret: str, authority_url: str, broker_id: str, guard: Guard) -> None:
        super().__init__(secret, authority_url)
        self._broker_id = broker_id
        self._kept_by = guard
        self._hashes = [(topic.namespace, topic.ring_hash) for topic in topics()]

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        return {**super().state(query), wire.STORAGE_REFUSES: self._kept_by is not Guard.LEASE}

    def acting(self, log_port: int) -> Any:
        """For the application: acts as long as it runs."""

        async def scope(_: web.Application) -> AsyncIterator[None]:
            async with TaskScope("acting broker") as tasks:
                tasks.start(self._act_for_ever(log_port), "acts")
                yield

        return scope

    async def _act_for_ever(self, log_port: int) -> None:
        _, log = await asyncio.open_connection(LOOPBACK, log_port)
        # Each act leaves at once: the log shall see them in the order in which they were done.
        log.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            now_s = self.clock.now_s()
            if self._kept_by is not Guard.LEASE or self.authority.is_valid(now_s):
                said = {"t": int(now_s * _NS), "broker": self._broker_id, "acts": self._acts()}
                log.write(codec.encode(said) + b"\n")
                await log.drain()
            await asyncio.sleep(TICK_S)

    def _acts(self) -> list[tuple[int, list[int]]]:
        acts = []
        for entry in self.table:
            bundle = entry.bundle
            hashes = [h for namespace, h in self._hashes if namespace == bundle.namespace]
            acts.append((entry.token, [h for h in hashes if h in bundle.range]))
        return acts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log-port", type=int, required=True)
    parser.add_argument("--secret-file", type=Path, required=True)
    parser.add_argument("--authority-url", required=True)
    parser.add_argument("--broker", required=True)
    parser.add_argument("--guard", type=Guard, required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--replica-port", type=int, required=True)
    parser.add_argument("--replica-logs", type=Path, required=True)
    options = parser.parse_args()
    secret = options.secret_file.read_text().strip()
    broker = ActingBroker(secret, options.authority_url, options.broker, options.guard)
    app = broker.app()
    app.cleanup_ctx.append(broker.acting(options.log_port))
    address = f"{LOOPBACK}:{options.replica_port}"
    ReplicaRoutes(broker, options.number, address, options.replica_logs).add_to(app)
    with contextlib.suppress(KeyboardInterrupt):
        web.run_app(app, host=LOOPBACK, port=options.port, print=None)


if __name__ == "__main__":
    main()
