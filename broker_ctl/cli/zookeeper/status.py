"""``broker-ctl zookeeper status``: the role of each server, and whether there is a leader."""

import asyncio
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo, echo_json, print_table
from broker_ctl.cli.runtime.settings_options import config_option
from broker_ctl.cli.runtime.watching import watch_option

if TYPE_CHECKING:
    import ssl

_COLUMNS: Final = ("server", "state", "version", "zxid", "connections", "note")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper status zk1:2181,zk2:2181,zk3:2181
  broker-ctl zookeeper status --config broker.conf
  broker-ctl zookeeper status zk1:2181 --output json
"""


@click.command(
    "status",
    short_help="Show the role of each server, and whether there is a leader.",
    epilog=_EXAMPLES,
)
@click.argument("hosts", required=False, metavar="HOST:PORT,HOST:PORT")
@config_option("Configuration file (broker.conf) with metadataStoreUrl and TLS settings.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 60.0),
    default=3.0,
    show_default=True,
    help="Timeout for each server, in seconds.",
)
@watch_option
@output_option()
def command(hosts: str | None, configuration: Path | None, timeout: float, output: str) -> None:
    """Query the role of each ZooKeeper server with the four-letter command srvr.

    A server that runs without a quorum is shown as such. Exit code 1 if there is no leader.
    """
    from broker_ctl.store.zookeeper.server_status import ask_all, verdict

    servers, tls = _servers(hosts, configuration)
    standings = asyncio.run(ask_all(servers, limit_s=timeout, tls=tls))
    is_led, sentence = verdict(standings)
    rows = [asdict(one) for one in standings]
    if output == "json":
        echo_json({"has_leader": is_led, "verdict": sentence, "servers": rows})
    else:
        print_table("", _COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
        echo(sentence)
    sys.exit(not is_led)


def _servers(
    hosts: str | None, configuration: Path | None
) -> "tuple[list[tuple[str, int]], ssl.SSLContext | None]":
    from broker_ctl.daemon.wiring.stores import tls_context
    from broker_ctl.settings.sources import load
    from broker_ctl.store.zookeeper.store import parse_hosts

    if (hosts is None) == (configuration is None):
        raise click.UsageError("either servers or --config is required")
    if hosts is not None:
        return parse_hosts(hosts), None
    settings = load(configuration, os.environ, ())
    if settings.metadata.store_url is None:
        raise click.ClickException(f"{configuration}: metadataStoreUrl is not set")
    servers = ",".join(str(server) for server in settings.metadata.store_url.servers)
    return parse_hosts(servers), tls_context(settings)
