"""``broker-ctl isolation-policies``: which brokers serve which namespaces."""

from typing import Any, Final
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
  broker-ctl isolation-policies list
  broker-ctl isolation-policies get shop
  broker-ctl isolation-policies brokers
  broker-ctl isolation-policies set shop --namespaces 'shop/.*' --primary 'broker-[12]' \\
      --secondary 'broker-3' --min-available 1 --unload-scope changed
  broker-ctl isolation-policies delete shop --dry-run
"""
_SCOPES: Final = ("all_matching", "changed", "none")
# Namespaces that a warning names.
_MAX_NAMED: Final = 5
_COLUMNS: Final = ("policy", "namespaces", "primary", "secondary", "min available", "unload scope")


@click.group(cls=VerbGroup, short_help="Manage namespace isolation policies.", epilog=_EXAMPLES)
def command() -> None:
    r"""Manage namespace isolation policies.

    A policy assigns the namespaces that match it to the brokers that match it, and keeps all other
    namespaces off its primary brokers. A pattern is a regular expression for a whole
    tenant/namespace, or for the whole host name of a broker.
    """


def _path(cluster: str, *steps: str) -> str:
    parts = (quote(cluster, safe=""), "namespaceIsolationPolicies", *steps)
    return "/admin/v2/clusters/" + "/".join(parts)


def _path_of(cluster: str, name: str) -> str:
    return _path(cluster, quote(name, safe=""))


@command.command(name="list", epilog=_EXAMPLES)
@cluster_option
@daemon_options
def list_(target: Target, *, cluster: str | None) -> None:
    """List all policies, in the order in which they are tried."""
    cluster = cluster_of(target, cluster)
    policies = target.run(lambda client: client.get(_path(cluster)))
    _print_policies(target, policies, policies)


@command.command(epilog=_EXAMPLES)
@click.argument("name")
@cluster_option
@daemon_options
def get(target: Target, *, name: str, cluster: str | None) -> None:
    """Show the policy NAME."""
    cluster = cluster_of(target, cluster)
    policy = target.run(lambda client: client.get(_path_of(cluster, name)))
    _print_policies(target, policy, {name: policy})


@command.command(epilog=_EXAMPLES)
@click.argument("broker", required=False)
@cluster_option
@daemon_options
def brokers(target: Target, *, broker: str | None, cluster: str | None) -> None:
    """Show which policy names each live broker, or BROKER."""
    cluster = cluster_of(target, cluster)
    steps = ("brokers",) if broker is None else ("brokers", quote(broker, safe=""))
    found = target.run(lambda client: client.get(_path(cluster, *steps)))
    if target.is_json:
        echo_json(found)
        return
    rows = found if broker is None else [found]
    print_table(
        "",
        ("broker", "policy", "primary", "namespaces"),
        (
            (
                row["brokerName"],
                row.get("policyName"),
                row["primary"],
                _join(row, "namespaceRegex"),
            )
            for row in rows
        ),
    )


@command.command(name="set", epilog=_EXAMPLES)
@click.argument("name")
@click.option(
    "--namespaces",
    multiple=True,
    required=True,
    metavar="PATTERN",
    help="Regex of namespaces (tenant/namespace) the policy covers.",
)
@click.option(
    "--primary", multiple=True, required=True, metavar="PATTERN", help="Regex of primary brokers."
)
@click.option("--secondary", multiple=True, metavar="PATTERN", help="Regex of secondary brokers.")
@click.option(
    "--min-available",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Number of live primary brokers below which secondary brokers are used.",
)
@click.option(
    "--usage-threshold",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Stored for Pulsar; no effect there or here.",
)
@click.option(
    "--unload-scope",
    type=click.Choice(_SCOPES),
    help=(
        "Namespaces whose bundles are unloaded from brokers that may no longer serve "
        "them.  [default: none]"
    ),
)
@change_options
@cluster_option
@daemon_options
def set_(
    target: Target,
    *,
    name: str,
    namespaces: tuple[str, ...],
    primary: tuple[str, ...],
    secondary: tuple[str, ...],
    min_available: int,
    usage_threshold: int,
    unload_scope: str | None,
    dry_run: bool,
    yes: bool,
    cluster: str | None,
) -> None:
    """Add the policy NAME, or replace it.

    PATTERN options are repeatable. With --unload-scope, bundles on brokers that may no longer
    serve them are unloaded; otherwise they stay until their next placement.
    """
    cluster = cluster_of(target, cluster)
    parameters = {"min_limit": str(min_available), "usage_threshold": str(usage_threshold)}
    body: dict[str, Any] = {
        "namespaces": namespaces,
        "primary": primary,
        "secondary": secondary,
        "auto_failover_policy": {"policy_type": "min_available", "parameters": parameters},
    }
    if unload_scope is not None:
        body["unload_scope"] = unload_scope
    unloading = f", unloading {unload_scope}" if unload_scope else ""
    sentence = f"give {', '.join(namespaces)} to {', '.join(primary)} by policy {name}{unloading}"
    change = Change("POST", _path_of(cluster, name), body=body)
    found = send_dry_run(target, change)
    if not found["primary"] and not found["secondary"]:
        echo(
            f"warning: no live broker matches policy {name}: its patterns are for host names "
            "alone, without a port, one for each option",
            err=True,
        )
    _warn_without_broker(found["without_broker"])
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "set", f"set isolation policy {name}")


@command.command(epilog=_EXAMPLES)
@click.argument("name")
@change_options
@cluster_option
@daemon_options
def delete(target: Target, *, name: str, dry_run: bool, yes: bool, cluster: str | None) -> None:
    """Delete the policy NAME; its brokers then serve all namespaces."""
    cluster = cluster_of(target, cluster)
    change, sentence = Change("DELETE", _path_of(cluster, name)), f"delete isolation policy {name}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted isolation policy {name}")


def _warn_without_broker(namespaces: list[str]) -> None:
    if not namespaces:
        return
    some, more = namespaces[:_MAX_NAMED], len(namespaces) - _MAX_NAMED
    others = f" and {more} others" if more > 0 else ""
    echo(f"warning: no live broker may serve {', '.join(some)}{others} then", err=True)


def _print_policies(target: Target, found: Any, policies: dict[str, dict[str, Any]]) -> None:
    if target.is_json:
        echo_json(found)
    else:
        print_table("", _COLUMNS, (_row(name, policy) for name, policy in policies.items()))


def _row(name: str, policy: dict[str, Any]) -> tuple[Any, ...]:
    parameters = policy.get("auto_failover_policy", {}).get("parameters", {})
    lists = (_join(policy, field) for field in ("namespaces", "primary", "secondary"))
    return (name, *lists, parameters.get("min_limit"), policy.get("unload_scope"))


def _join(found: dict[str, Any], field: str) -> str:
    return " ".join(found.get(field) or ())
