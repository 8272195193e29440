"""``broker-ctl run``: the daemon itself, in the foreground."""

from pathlib import Path
from typing import Final

import click

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


@click.command(short_help="Run the daemon of one broker.", epilog=_EXAMPLES)
@click.option(
    "-c",
    "--config",
    "configuration",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file (broker.conf); see `broker-ctl config check`.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting that overrides file and environment; repeatable.",
)
@click.pass_context
def command(ctx: click.Context, configuration: Path | None, overrides: tuple[str, ...]) -> None:
    """Run the control plane of one broker until SIGTERM or Ctrl-C.

    The first signal hands the bundles over and closes the session; a second one ends the process
    immediately, for emergencies: the session then expires on its own.
    """
    from broker_ctl.daemon.lifecycle.start import run

    ctx.exit(run(configuration, overrides))
