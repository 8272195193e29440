"""A whole daemon with real ports on loopback, on a store in memory."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.support.daemon.in_memory_daemon import InMemory, Run, running

PORTS = ("webServicePort", "lookupServicePort")
TLS_PORTS = ("webServicePortTls", "lookupServicePortTls")


class Listening(InMemory):
    """As `InMemory`, with the servers of a process."""

    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        return Environment.api(self, dependencies, rules)


@asynccontextmanager
async def listening_daemon(
    *overrides: str, around: Listening | None = None
) -> AsyncIterator[tuple[Run, dict[str, int]]]:
    """A daemon that is ready, and its ports by their settings; those of TLS with a certificate."""
    with ExitStack() as held:
        is_tls = any(each.startswith("tlsCertificateFilePath=") for each in overrides)
        keys = (*PORTS, *TLS_PORTS) if is_tls else PORTS
        ports = {key: port_of(held.enter_context(reserve_port())) for key in keys}
        own = [f"{key}={port}" for key, port in ports.items()]
        listen = ("bindAddress=127.0.0.1", "advertisedAddress=127.0.0.1", *own)
        async with running(*listen, *overrides, around=around or Listening()) as run:
            yield run, ports
