"""``broker-ctl quickstart``: a demo cluster under load on this machine."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

_EXAMPLES: Final = """\b
Examples:
  broker-ctl quickstart
  broker-ctl quickstart --brokers 5 --ensemble 3
  broker-ctl quickstart --partitions 12
  broker-ctl quickstart --headless --duration 60 --json
  broker-ctl quickstart --zookeeper 127.0.0.1:2181
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--brokers",
    type=click.IntRange(1, 16),
    default=3,
    show_default=True,
    help="Number of brokers.",
)
@click.option(
    "--ensemble",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Number of ZooKeeper servers.",
)
@click.option(
    "--partitions",
    type=click.IntRange(0, 10_000),
    default=0,
    help="Also create a replicated topic with this number of partitions.",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=5),
    metavar="SECONDS",
    help="Time to run.  [default: until Ctrl-C; 60 with --headless]",
)
@click.option("--headless", is_flag=True, help="Do not show the live table.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one line of JSON on stdout."
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    help=(
        "Use this ensemble, under a temporary chroot, with the TLS and identity settings of the "
        "environment (BROKER_CTL_zookeeperSaslDigestFile and the like)."
    ),
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for broker.conf files and logs.  [default: a temporary directory]",
)
def command(
    *,
    brokers: int,
    ensemble: str,
    partitions: int,
    duration: float | None,
    headless: bool,
    as_json: bool,
    zookeeper: str | None,
    directory: Path | None,
) -> None:
    """Run ZooKeeper, several brokers with a skewed workload, and clients that look up topics.

    One bundle is overloaded: within the first minute it is split, and load is shed until the
    brokers are balanced. Every broker is a real `broker-ctl run` with the broker.conf that is named
    at the start. Ctrl-C stops everything.
    """
    from broker_ctl.cli.demo_cluster import DemoCluster, DemoOptions
    from broker_ctl.codec import encode

    options = DemoOptions(
        brokers=brokers,
        servers=int(ensemble),
        partitions=partitions,
        duration_s=duration if duration is not None else (60.0 if headless else None),
        is_live=not headless,
        zookeeper=zookeeper,
        directory=directory,
    )
    result = asyncio.run(DemoCluster(options).run())
    if as_json:
        sys.stdout.write(encode(result.to_row()).decode() + "\n")
    elif result.is_measured:
        click.echo(result.sentence)
