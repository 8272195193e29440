"""The binary server of a broker: lookups for Pulsar's clients, outside every session."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from broker_ctl.api.binary.clients import Clients
from broker_ctl.api.binary.connection import BinaryConnection
from broker_ctl.api.binary.dependencies import BinaryDependencies, BinaryListener, BinaryRules
from broker_ctl.api.binary.lookups import Lookups
from broker_ctl.api.binary.workers import Workers
from broker_ctl.api.http.limits import connections
from broker_ctl.api.http.limits.acceptor import PlainPorts
from broker_ctl.api.http.limits.handshakes import Handshakes
from broker_ctl.errors import StartError
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

_POLL_S: Final = 0.02
# A broker's death brings the clients of all its topics at once. A client that finds this queue
# full gets no answer, and tries again after a second. The kernel takes as many as it allows.
_BACKLOG: Final = 4096


class BinaryServer:
    """Pulsar's binary protocol on one port, or on two, one of them with TLS."""

    def __init__(
        self,
        dependencies: BinaryDependencies,
        rules: BinaryRules,
        listeners: Sequence[BinaryListener],
    ) -> None:
        rules = self._rules = _within_descriptors(rules)
        self._listeners = tuple(listeners)
        self._lookups = Lookups(dependencies, rules)
        self._workers = Workers(
            self._lookups.recall, self._lookups.answer, self._lookups.overdue, rules.request_limit_s
        )
        self._clients = Clients(
            rules,
            self._workers,
            dependencies.rates,
            dependencies.failures,
            dependencies.instruments,
            ready=self._lookups,
        )
        self._plain = PlainPorts("binary connections")
        self._ports: list[int] = []
        self.handshakes = Handshakes(rules.connect_limit_s)
        if rules.authenticator is not None:
            rules.authenticator.listen(self._clients.recheck)
        self._clients.show(dependencies.bounds)
        dependencies.rates.show(dependencies.bounds)
        self.handshakes.show(dependencies.bounds, "binary-handshakes")
        dependencies.instruments.connections.bind(lambda: len(self._clients))
        dependencies.instruments.in_flight.bind(lambda: self._workers.in_flight)

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: an address is taken, or not this machine's.
        """
        for listener in self._listeners:
            try:
                self._ports.append(await self._listen(listener))
            except OSError as error:
                await self._close_listeners()
                reason = error.strerror or str(error)
                raise StartError(
                    f"cannot listen on {listener.address} port {listener.port}: {reason}; "
                    f"see bindAddress and {listener.setting}"
                ) from error
        for listener, port in zip(self._listeners, self.ports, strict=True):
            tls = "with TLS " if listener.tls else ""
            log.info("serving binary lookups %son %s port %d", tls, listener.address, port)

    async def stop(self, deadline_s: float) -> None:
        """Refuse new requests, wait this long for those in progress, close all connections."""
        await self._close_listeners()
        self._lookups.drain()

        async def is_idle() -> bool:
            return self._workers.in_flight == 0

        if not await wait_until(is_idle, deadline_s, _POLL_S):
            log.warning(
                "shutdown deadline reached: cancelling %d binary requests in progress",
                self._workers.in_flight,
            )
        await self._clients.part()
        await self._workers.close()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that are listened on, in the order of the listeners."""
        return tuple(self._ports)

    async def _listen(self, listener: BinaryListener) -> int:
        """The number of its port."""

        def make() -> BinaryConnection:
            return BinaryConnection(self._clients)

        tls = listener.tls
        address, port = listener.address, listener.port
        if tls is not None:
            return await self.handshakes.listen(make, tls, address, port, _BACKLOG)
        return await self._plain.listen(make, address, port, _BACKLOG)

    async def _close_listeners(self) -> None:
        await self._plain.close()
        await self.handshakes.close()
        self._ports.clear()


def _within_descriptors(rules: BinaryRules) -> BinaryRules:
    """The rules, with no more sockets than this process can have for such clients."""
    wanted = rules.max_connections or sys.maxsize
    most = connections.cap(wanted, connections.BINARY)
    if rules.max_connections:
        what, key = "binary", "brokerMaxConnections"
        most = connections.cap_and_log(wanted, connections.BINARY, what, key)
    waiting = connections.cap(rules.max_waiting, connections.BINARY_WAITING)
    return replace(
        rules,
        max_connections=0 if most == sys.maxsize else most,
        max_waiting=waiting,
        max_waiting_of_address=max(1, min(rules.max_waiting_of_address, waiting // 2)),
        max_refused=connections.cap(rules.max_refused, connections.BINARY_REFUSED),
    )
