"""``broker-ctl clusters``: the registered clusters and their peers."""

from typing import Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    check_and_confirm,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_CLUSTERS: Final = "/admin/v2/clusters"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl clusters list
  broker-ctl clusters get east --output json
  broker-ctl clusters create west --service-url http://west:8080 --broker-url pulsar://west:6650
  broker-ctl clusters update west --broker-url pulsar://west-2:6650 --yes
  broker-ctl clusters set-peers east --peer west --yes
  broker-ctl clusters delete west --dry-run
"""
_FIELDS: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")


def _addresses(verb: Any) -> Any:
    """Add the options for addresses, named as in pulsar-admin; --url is that of the daemon."""
    for option, name, example in (
        ("--broker-url-tls", "brokerServiceUrlTls", "pulsar+ssl://HOST:PORT"),
        ("--broker-url", "brokerServiceUrl", "pulsar://HOST:PORT"),
        ("--service-url-tls", "serviceUrlTls", "https://HOST:PORT"),
        ("--service-url", "serviceUrl", "http://HOST:PORT"),
    ):
        verb = click.option(option, name, metavar=example, help=f"{name} of the cluster.")(verb)
    return verb


@click.group(cls=VerbGroup, short_help="Manage clusters and their peers.", epilog=_EXAMPLES)
def command() -> None:
    """Manage clusters: the homes of namespaces, and the peers to which clients are redirected."""


def _path(name: str, verb: str = "") -> str:
    return f"{_CLUSTERS}/{quote(name, safe='')}{verb}"


@command.command(name="list", epilog=_EXAMPLES)
@daemon_options
def list_(target: Target) -> None:
    """List all clusters."""
    names = target.run(lambda client: client.get(_CLUSTERS))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("cluster",), ([name] for name in names))


@command.command(epilog=_EXAMPLES)
@click.argument("cluster")
@daemon_options
def get(target: Target, *, cluster: str) -> None:
    """Show CLUSTER: its addresses and its peers."""
    data = target.run(lambda client: client.get(_path(cluster)))
    if target.is_json:
        echo_json(data)
    else:
        print_facts("", data)


@command.command(epilog=_EXAMPLES)
@click.argument("cluster")
@_addresses
@change_options
@daemon_options
def create(
    target: Target, /, *, cluster: str, dry_run: bool, yes: bool, **addresses: str | None
) -> None:
    """Register CLUSTER with its addresses."""
    data = {name: addresses[name] for name in _FIELDS if addresses[name]}
    if not data:
        raise click.UsageError("an address is required: --service-url or --broker-url")
    sentence = f"create cluster {cluster} at {', '.join(map(str, data.values()))}"
    change = Change("PUT", _path(cluster), body=data)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created cluster {cluster}")


@command.command(epilog=_EXAMPLES)
@click.argument("cluster")
@_addresses
@change_options
@daemon_options
def update(
    target: Target, /, *, cluster: str, dry_run: bool, yes: bool, **addresses: str | None
) -> None:
    """Change the addresses of CLUSTER; options that are not given keep their values."""
    changed = {name: addresses[name] for name in _FIELDS if addresses[name]}
    if not changed:
        raise click.UsageError(
            "nothing to change: --service-url, --broker-url or a -tls variant is required"
        )
    data = {**target.run(lambda client: client.get(_path(cluster))), **changed}
    sentence = f"change cluster {cluster}: {', '.join(f'{k} {v}' for k, v in changed.items())}"
    change = Change("POST", _path(cluster), body=data)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"updated cluster {cluster}")


@command.command(name="set-peers", epilog=_EXAMPLES)
@click.argument("cluster")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="CLUSTER",
    help="Peer cluster; repeatable. Without any, the cluster has no peers.",
)
@change_options
@daemon_options
def set_peers(
    target: Target, *, cluster: str, peers: tuple[str, ...], dry_run: bool, yes: bool
) -> None:
    """Set the peers of CLUSTER, to which its clients are redirected for namespaces outside it."""
    sentence = f"make {', '.join(peers) or 'none'} the peers of cluster {cluster}"
    change = Change("POST", _path(cluster, "/peers"), body=list(peers))
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"set the peers of cluster {cluster}")


@command.command(epilog=_EXAMPLES)
@click.argument("cluster")
@change_options
@daemon_options
def delete(target: Target, *, cluster: str, dry_run: bool, yes: bool) -> None:
    """Delete CLUSTER; refused while a tenant may use it or a policy exists for it."""
    change = Change("DELETE", _path(cluster))
    if check_and_confirm(target, change, f"delete cluster {cluster}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted cluster {cluster}")
