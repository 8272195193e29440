"""``broker-ctl anti-affinity``: groups of namespaces that are kept apart."""

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
  broker-ctl anti-affinity set shop/orders critical
  broker-ctl anti-affinity get shop/orders
  broker-ctl anti-affinity list critical --tenant shop
  broker-ctl anti-affinity clear shop/orders --yes
"""


@click.group(
    cls=VerbGroup, short_help="Manage anti-affinity groups of namespaces.", epilog=_EXAMPLES
)
def command() -> None:
    """Manage anti-affinity groups: namespaces of one group are spread over the brokers."""


def _path(namespace: str) -> str:
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    return f"{namespace_path(Namespace.parse(namespace))}/antiAffinity"


@command.command(epilog=_EXAMPLES)
@click.argument("namespace")
@daemon_options
def get(target: Target, *, namespace: str) -> None:
    """Show the group of NAMESPACE."""
    path = _path(namespace)
    reply = target.run(lambda client: client.request("GET", path))
    group = reply.body.decode() or None
    if target.is_json:
        echo_json({"namespace": namespace, "group": group})
    else:
        echo(group or f"{namespace} is not in a group")


@command.command(name="list", epilog=_EXAMPLES)
@click.argument("group")
@click.option("--tenant", required=True, help="Tenant of the namespaces.")
@cluster_option
@daemon_options
def list_(target: Target, *, group: str, tenant: str, cluster: str | None) -> None:
    """List the namespaces of GROUP."""
    cluster = cluster_of(target, cluster)
    names = (quote(cluster, safe=""), quote(group, safe=""))
    path = "/admin/v2/namespaces/{}/antiAffinity/{}".format(*names)
    namespaces = target.run(lambda client: client.get(path, {"tenant": tenant}))
    if target.is_json:
        echo_json(namespaces)
    else:
        print_table("", ("namespace",), ([name] for name in namespaces))


@command.command(name="set", epilog=_EXAMPLES)
@click.argument("namespace")
@click.argument("group")
@change_options
@daemon_options
def set_(target: Target, *, namespace: str, group: str, dry_run: bool, yes: bool) -> None:
    """Put NAMESPACE into GROUP, removing it from its previous group."""
    change, sentence = (
        Change("POST", _path(namespace), body=group),
        f"put {namespace} into group {group}",
    )
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"put {namespace} into group {group}")


@command.command(epilog=_EXAMPLES)
@click.argument("namespace")
@change_options
@daemon_options
def clear(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Remove NAMESPACE from its group."""
    change = Change("DELETE", _path(namespace))
    found = send_dry_run(target, change)
    if found["group"] is None:
        report_result(target, "nothing", f"{namespace} is not in a group")
        return
    sentence = f"remove {namespace} from group {found['group']}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "cleared", f"removed {namespace} from its group")
