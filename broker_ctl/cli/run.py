"""``broker-ctl run``: the daemon itself, in the foreground."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.target import settings_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl run -c /etc/broker-ctl/broker.conf
  broker-ctl run -c broker.conf --set webServicePort=8081 --set logLevel=debug
  BROKER_CTL_metadataStoreUrl=zk:zk1:2181 broker-ctl run

\b
Exit codes: 0 stopped on request, 1 could not start or failed,
65 ZooKeeper was restored from a copy (see docs/how-to/restored-zookeeper.md first),
69 zookeeperSessionReconnectMaxRetries used up, 70 zookeeperSessionExpiredPolicy=shutdown,
77 ZooKeeper rejects the credentials.
"""


@click.command(epilog=_EXAMPLES)
@settings_options("Configuration file (broker.conf); see `broker-ctl config check`.")
@click.pass_context
def command(ctx: click.Context, configuration: Path | None, overrides: tuple[str, ...]) -> None:
    """Run the control plane of one broker until SIGTERM or Ctrl-C.

    The first signal hands the bundles over and closes the session; a second one ends the process
    immediately, for emergencies: the session then expires on its own.
    """
    with _paused_collection():
        from broker_ctl.daemon.lifecycle.start import run

    ctx.exit(run(configuration, overrides))


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Without garbage collection: imports make a million objects that stay, and little garbage.

    The collector would search them all several times, for a tenth of the time of the imports.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
