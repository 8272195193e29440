"""``broker-ctl brokers``: the live brokers and their load."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from broker_ctl.cli.cluster.broker_rows import LIST_COLUMNS, broker_rows, list_cells
from broker_ctl.cli.cluster.monitor import command as monitor
from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_STATISTICS: Final = "/admin/v2/broker-stats"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl brokers list
  broker-ctl brokers list --output json
  broker-ctl brokers load-report --url http://broker-2:8080
  broker-ctl brokers monitor --zookeeper zk1:2181
  broker-ctl brokers topics --url http://broker-2:8080
  broker-ctl brokers topics --namespace shop/orders --limit 500 --output json
"""
# Fields of a load report with an entry per bundle; only the JSON output has them.
_PER_BUNDLE: Final = ("lastStats", "bundleStats", "bundles")
_TOPIC_COLUMNS: Final = (
    "topic",
    "bundle",
    "producers",
    "consumers",
    "msg/s in",
    "msg/s out",
    "throughput in",
    "throughput out",
)
_COUNT_FIELDS: Final = ("producerCount", "consumerCount", "msgRateIn", "msgRateOut")
_THROUGHPUT_FIELDS: Final = ("msgThroughputIn", "msgThroughputOut")


@click.group(
    cls=VerbGroup, short_help="List live brokers; show and monitor their load.", epilog=_EXAMPLES
)
def command() -> None:
    """List live brokers; show the load and topics of one; monitor the load of all."""


@command.command(name="list", epilog=_EXAMPLES)
@daemon_options
def list_(target: Target) -> None:
    """List the live brokers; their load is in `broker-ctl status --cluster`.

    Version, start and state come from the load reports at the leader: "-" without a report or
    without a leader. A broker is drained once a drain or a shutdown has removed all its bundles.
    brokerId is the numeric id in replica lists.
    """
    rows = target.run(broker_rows)
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", LIST_COLUMNS, map(list_cells, rows))


@command.command(name="load-report", epilog=_EXAMPLES)
@daemon_options
def load_report(target: Target) -> None:
    """Show the current load report of the broker at --url."""
    report = target.run(lambda client: client.get(f"{_STATISTICS}/load-report"))
    if target.is_json:
        echo_json(report)
    else:
        print_facts("", {name: part for name, part in report.items() if name not in _PER_BUNDLE})


@command.command(epilog=_EXAMPLES)
@click.option("--namespace", metavar="TENANT/NAMESPACE", help="Only topics of this namespace.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Maximum number of topics, in order of bundle and name.",
)
@daemon_options
def topics(target: Target, *, namespace: str | None, limit: int) -> None:
    """Show the traffic of each topic that the broker at --url serves.

    If there are more topics than --limit, a line on stderr reports it.
    """
    from broker_ctl.api.admin.brokers import CUT_HEADER

    query = {"limit": str(limit)} | ({} if namespace is None else {"namespace": namespace})
    reply = target.run(lambda client: client.request("GET", f"{_STATISTICS}/topics", query))
    found = reply.json()
    if target.is_json:
        echo_json(found)
    else:
        print_table("", _TOPIC_COLUMNS, _topic_rows(found))
    if CUT_HEADER in reply.headers:
        echo(f"only the first {limit} topics are shown: see --limit and --namespace", err=True)


command.add_command(monitor)


def _topic_rows(found: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    from broker_ctl.core.model.load_vector import throughput_text

    for namespace, bundles in found.items():
        for span, domains in bundles.items():
            for lines in domains.values():
                for name, line in lines.items():
                    counts = (line[field] for field in _COUNT_FIELDS)
                    throughput = (throughput_text(line[field]) for field in _THROUGHPUT_FIELDS)
                    yield name, f"{namespace}/{span}", *counts, *throughput
