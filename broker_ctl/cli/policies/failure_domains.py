"""``broker-ctl failure-domains``: groups of brokers that fail together."""

from typing import Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    cluster_of,
    cluster_option,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo, echo_json, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl failure-domains list
  broker-ctl failure-domains get rack-1
  broker-ctl failure-domains set rack-1 --broker broker-1:8080 --broker broker-2:8080
  broker-ctl failure-domains delete rack-1 --yes
"""


@click.group(cls=VerbGroup, short_help="Manage failure domains of brokers.", epilog=_EXAMPLES)
def command() -> None:
    """Manage failure domains: groups of brokers that fail together.

    Namespaces of one anti-affinity group are placed in different domains (failureDomainsEnabled).
    """


def _path(cluster: str, name: str | None = None) -> str:
    root = f"/admin/v2/clusters/{quote(cluster, safe='')}/failureDomains"
    return root if name is None else f"{root}/{quote(name, safe='')}"


@command.command(name="list", epilog=_EXAMPLES)
@cluster_option
@daemon_options
def list_(target: Target, *, cluster: str | None) -> None:
    """List all domains with their brokers."""
    cluster = cluster_of(target, cluster)
    domains = target.run(lambda client: client.get(_path(cluster)))
    if target.is_json:
        echo_json(domains)
    else:
        rows = ((name, " ".join(domain["brokers"])) for name, domain in domains.items())
        print_table("", ("failure domain", "brokers"), rows)


@command.command(epilog=_EXAMPLES)
@click.argument("name")
@cluster_option
@daemon_options
def get(target: Target, *, name: str, cluster: str | None) -> None:
    """Show the brokers of the domain NAME."""
    cluster = cluster_of(target, cluster)
    domain = target.run(lambda client: client.get(_path(cluster, name)))
    if target.is_json:
        echo_json(domain)
    else:
        print_table("", ("broker",), ([broker] for broker in domain["brokers"]))


@command.command(name="set", epilog=_EXAMPLES)
@click.argument("name")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="Broker id; repeatable.",
)
@change_options
@cluster_option
@daemon_options
def set_(
    target: Target,
    *,
    name: str,
    brokers: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    cluster: str | None,
) -> None:
    """Set the brokers of the domain NAME; a broker belongs to at most one domain."""
    cluster = cluster_of(target, cluster)
    sentence = f"make failure domain {name} of {', '.join(brokers)}"
    change = Change("POST", _path(cluster, name), body={"brokers": brokers})
    found = send_dry_run(target, change)
    if found["not_alive"]:
        echo(f"warning: not alive: {', '.join(found['not_alive'])}", err=True)
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "set", f"set failure domain {name}")


@command.command(epilog=_EXAMPLES)
@click.argument("name")
@change_options
@cluster_option
@daemon_options
def delete(target: Target, *, name: str, dry_run: bool, yes: bool, cluster: str | None) -> None:
    """Delete the domain NAME; its brokers are then in no domain."""
    cluster = cluster_of(target, cluster)
    change, sentence = Change("DELETE", _path(cluster, name)), f"delete failure domain {name}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted failure domain {name}")
