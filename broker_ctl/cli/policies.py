"""``broker-ctl tenants``, ``clusters`` and policies of placement by operators."""

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbGroup,
    change_options,
    check_and_confirm,
    cluster_of,
    cluster_option,
    confirm,
    report_result,
    send,
    send_dry_run,
)

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient


# ``broker-ctl anti-affinity``: groups of namespaces that are kept apart.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl anti-affinity set shop/orders critical
  broker-ctl anti-affinity get shop/orders
  broker-ctl anti-affinity list critical --tenant shop
  broker-ctl anti-affinity clear shop/orders --yes
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def anti_affinity() -> None:
    """Manage anti-affinity groups: namespaces of one group are spread over the brokers."""


def _path(namespace: str) -> str:
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    return f"{namespace_path(Namespace.parse(namespace))}/antiAffinity"


@anti_affinity.command(epilog=_EXAMPLES)
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


@anti_affinity.command(name="list", epilog=_EXAMPLES)
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


@anti_affinity.command(name="set", epilog=_EXAMPLES)
@click.argument("namespace")
@click.argument("group")
@change_options
@daemon_options
def set_(target: Target, *, namespace: str, group: str, dry_run: bool, yes: bool) -> None:
    """Put NAMESPACE into GROUP, removing it from its previous group."""
    change, sentence = (
        VerbChange("POST", _path(namespace), body=group),
        f"put {namespace} into group {group}",
    )
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"put {namespace} into group {group}")


@anti_affinity.command(epilog=_EXAMPLES)
@click.argument("namespace")
@change_options
@daemon_options
def clear(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Remove NAMESPACE from its group."""
    change = VerbChange("DELETE", _path(namespace))
    found = send_dry_run(target, change)
    if found["group"] is None:
        report_result(target, "nothing", f"{namespace} is not in a group")
        return
    sentence = f"remove {namespace} from group {found['group']}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "cleared", f"removed {namespace} from its group")


# ``broker-ctl clusters``: the registered clusters and their peers.


_CLUSTERS: Final = "/admin/v2/clusters"
_CLUSTERS_EXAMPLES: Final = """\b
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


@click.group(cls=VerbGroup, epilog=_CLUSTERS_EXAMPLES)
def clusters() -> None:
    """Manage clusters: the homes of namespaces, and the peers to which clients are redirected."""


def _path_of_clusters(name: str, verb: str = "") -> str:
    return f"{_CLUSTERS}/{quote(name, safe='')}{verb}"


@clusters.command(name="list", epilog=_CLUSTERS_EXAMPLES)
@daemon_options
def clusters_list_(target: Target) -> None:
    """List all clusters."""
    names = target.run(lambda client: client.get(_CLUSTERS))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("cluster",), ([name] for name in names))


@clusters.command(name="get", epilog=_CLUSTERS_EXAMPLES)
@click.argument("cluster")
@daemon_options
def clusters_get(target: Target, *, cluster: str) -> None:
    """Show CLUSTER: its addresses and its peers."""
    data = target.run(lambda client: client.get(_path_of_clusters(cluster)))
    if target.is_json:
        echo_json(data)
    else:
        print_facts("", data)


@clusters.command(epilog=_CLUSTERS_EXAMPLES)
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
    change = VerbChange("PUT", _path_of_clusters(cluster), body=data)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created cluster {cluster}")


@clusters.command(epilog=_CLUSTERS_EXAMPLES)
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
    data = {**target.run(lambda client: client.get(_path_of_clusters(cluster))), **changed}
    sentence = f"change cluster {cluster}: {', '.join(f'{k} {v}' for k, v in changed.items())}"
    change = VerbChange("POST", _path_of_clusters(cluster), body=data)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"updated cluster {cluster}")


@clusters.command(name="set-peers", epilog=_CLUSTERS_EXAMPLES)
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
    change = VerbChange("POST", _path_of_clusters(cluster, "/peers"), body=list(peers))
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"set the peers of cluster {cluster}")


@clusters.command(epilog=_CLUSTERS_EXAMPLES)
@click.argument("cluster")
@change_options
@daemon_options
def delete(target: Target, *, cluster: str, dry_run: bool, yes: bool) -> None:
    """Delete CLUSTER; refused while a tenant may use it or a policy exists for it."""
    change = VerbChange("DELETE", _path_of_clusters(cluster))
    if check_and_confirm(target, change, f"delete cluster {cluster}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted cluster {cluster}")


# ``broker-ctl failure-domains``: groups of brokers that fail together.


_FAILURE_DOMAINS_EXAMPLES: Final = """\b
Examples:
  broker-ctl failure-domains list
  broker-ctl failure-domains get rack-1
  broker-ctl failure-domains set rack-1 --broker broker-1:8080 --broker broker-2:8080
  broker-ctl failure-domains delete rack-1 --yes
"""


@click.group(cls=VerbGroup, epilog=_FAILURE_DOMAINS_EXAMPLES)
def failure_domains() -> None:
    """Manage failure domains: groups of brokers that fail together.

    Namespaces of one anti-affinity group are placed in different domains (failureDomainsEnabled).
    """


def _path_of_failure_domains(cluster: str, name: str | None = None) -> str:
    root = f"/admin/v2/clusters/{quote(cluster, safe='')}/failureDomains"
    return root if name is None else f"{root}/{quote(name, safe='')}"


@failure_domains.command(name="list", epilog=_FAILURE_DOMAINS_EXAMPLES)
@cluster_option
@daemon_options
def failure_domains_list_(target: Target, *, cluster: str | None) -> None:
    """List all domains with their brokers."""
    cluster = cluster_of(target, cluster)
    domains = target.run(lambda client: client.get(_path_of_failure_domains(cluster)))
    if target.is_json:
        echo_json(domains)
    else:
        rows = ((name, " ".join(domain["brokers"])) for name, domain in domains.items())
        print_table("", ("failure domain", "brokers"), rows)


@failure_domains.command(name="get", epilog=_FAILURE_DOMAINS_EXAMPLES)
@click.argument("name")
@cluster_option
@daemon_options
def failure_domains_get(target: Target, *, name: str, cluster: str | None) -> None:
    """Show the brokers of the domain NAME."""
    cluster = cluster_of(target, cluster)
    domain = target.run(lambda client: client.get(_path_of_failure_domains(cluster, name)))
    if target.is_json:
        echo_json(domain)
    else:
        print_table("", ("broker",), ([broker] for broker in domain["brokers"]))


@failure_domains.command(name="set", epilog=_FAILURE_DOMAINS_EXAMPLES)
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
def failure_domains_set_(
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
    change = VerbChange("POST", _path_of_failure_domains(cluster, name), body={"brokers": brokers})
    found = send_dry_run(target, change)
    if found["not_alive"]:
        echo(f"warning: not alive: {', '.join(found['not_alive'])}", err=True)
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "set", f"set failure domain {name}")


@failure_domains.command(name="delete", epilog=_FAILURE_DOMAINS_EXAMPLES)
@click.argument("name")
@change_options
@cluster_option
@daemon_options
def failure_domains_delete(
    target: Target, *, name: str, dry_run: bool, yes: bool, cluster: str | None
) -> None:
    """Delete the domain NAME; its brokers are then in no domain."""
    cluster = cluster_of(target, cluster)
    change, sentence = (
        VerbChange("DELETE", _path_of_failure_domains(cluster, name)),
        f"delete failure domain {name}",
    )
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted failure domain {name}")


# ``broker-ctl isolation-policies``: which brokers serve which namespaces.


_ISOLATION_POLICIES_EXAMPLES: Final = """\b
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


@click.group(
    cls=VerbGroup,
    epilog=_ISOLATION_POLICIES_EXAMPLES,
)
def isolation_policies() -> None:
    r"""Manage namespace isolation policies.

    A policy assigns the namespaces that match it to the brokers that match it, and keeps all other
    namespaces off its primary brokers. A pattern is a regular expression for a whole
    tenant/namespace, or for the whole host name of a broker.
    """


def _path_of_isolation_policies(cluster: str, *steps: str) -> str:
    parts = (quote(cluster, safe=""), "namespaceIsolationPolicies", *steps)
    return "/admin/v2/clusters/" + "/".join(parts)


def _path_of(cluster: str, name: str) -> str:
    return _path_of_isolation_policies(cluster, quote(name, safe=""))


@isolation_policies.command(name="list", epilog=_ISOLATION_POLICIES_EXAMPLES)
@cluster_option
@daemon_options
def isolation_policies_list_(target: Target, *, cluster: str | None) -> None:
    """List all policies, in the order in which they are tried."""
    cluster = cluster_of(target, cluster)
    policies = target.run(lambda client: client.get(_path_of_isolation_policies(cluster)))
    _print_policies(target, policies, policies)


@isolation_policies.command(name="get", epilog=_ISOLATION_POLICIES_EXAMPLES)
@click.argument("name")
@cluster_option
@daemon_options
def isolation_policies_get(target: Target, *, name: str, cluster: str | None) -> None:
    """Show the policy NAME."""
    cluster = cluster_of(target, cluster)
    policy = target.run(lambda client: client.get(_path_of(cluster, name)))
    _print_policies(target, policy, {name: policy})


@isolation_policies.command(epilog=_ISOLATION_POLICIES_EXAMPLES)
@click.argument("broker", required=False)
@cluster_option
@daemon_options
def brokers(target: Target, *, broker: str | None, cluster: str | None) -> None:
    """Show which policy names each live broker, or BROKER."""
    cluster = cluster_of(target, cluster)
    steps = ("brokers",) if broker is None else ("brokers", quote(broker, safe=""))
    found = target.run(lambda client: client.get(_path_of_isolation_policies(cluster, *steps)))
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


@isolation_policies.command(name="set", epilog=_ISOLATION_POLICIES_EXAMPLES)
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
def isolation_policies_set_(
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
    change = VerbChange("POST", _path_of(cluster, name), body=body)
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


@isolation_policies.command(name="delete", epilog=_ISOLATION_POLICIES_EXAMPLES)
@click.argument("name")
@change_options
@cluster_option
@daemon_options
def isolation_policies_delete(
    target: Target, *, name: str, dry_run: bool, yes: bool, cluster: str | None
) -> None:
    """Delete the policy NAME; its brokers then serve all namespaces."""
    cluster = cluster_of(target, cluster)
    change, sentence = (
        VerbChange("DELETE", _path_of(cluster, name)),
        f"delete isolation policy {name}",
    )
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


# ``broker-ctl tenants``: owners of namespaces, and their clusters.


_TENANTS: Final = "/admin/v2/tenants"
_TENANTS_EXAMPLES: Final = """\b
Examples:
  broker-ctl tenants list
  broker-ctl tenants create shop --yes
  broker-ctl tenants create shop --allowed-cluster east --allowed-cluster west --admin-role seller
  broker-ctl tenants get shop --output json
  broker-ctl tenants update shop --allowed-cluster east --dry-run
  broker-ctl tenants delete shop --yes
"""
_TENANTS_CLUSTERS: Final = click.option(
    "--allowed-cluster",
    "clusters",
    multiple=True,
    metavar="CLUSTER",
    help="Cluster that its namespaces may use; repeatable.  [default: all clusters]",
)
_ROLES: Final = click.option(
    "--admin-role",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="Role that administers the tenant, enforced by the broker processes; repeatable.",
)


@click.group(cls=VerbGroup, epilog=_TENANTS_EXAMPLES)
def tenants() -> None:
    """Manage tenants: each namespace belongs to one, and uses only clusters allowed to it."""


def _path_of_tenants(name: str) -> str:
    return f"{_TENANTS}/{quote(name, safe='')}"


@tenants.command(name="list", epilog=_TENANTS_EXAMPLES)
@daemon_options
def tenants_list_(target: Target) -> None:
    """List all tenants."""
    names = target.run(lambda client: client.get(_TENANTS))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("tenant",), ([name] for name in names))


@tenants.command(name="get", epilog=_TENANTS_EXAMPLES)
@click.argument("tenant")
@daemon_options
def tenants_get(target: Target, *, tenant: str) -> None:
    """Show TENANT: its clusters and its administrators."""
    info = target.run(lambda client: client.get(_path_of_tenants(tenant)))
    if target.is_json:
        echo_json(info)
    else:
        print_facts("", {name: " ".join(map(str, values)) for name, values in info.items()})


@tenants.command(name="create", epilog=_TENANTS_EXAMPLES)
@click.argument("tenant")
@_TENANTS_CLUSTERS
@_ROLES
@change_options
@daemon_options
def tenants_create(
    target: Target,
    *,
    tenant: str,
    clusters: tuple[str, ...],
    roles: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Create TENANT."""
    info = target.run(lambda client: _info(client, clusters, roles))
    sentence = f"create tenant {tenant}, allowed in {', '.join(info['allowedClusters'])}"
    change = VerbChange("PUT", _path_of_tenants(tenant), body=info)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created tenant {tenant}")


@tenants.command(name="update", epilog=_TENANTS_EXAMPLES)
@click.argument("tenant")
@_TENANTS_CLUSTERS
@_ROLES
@change_options
@daemon_options
def tenants_update(
    target: Target,
    *,
    tenant: str,
    clusters: tuple[str, ...],
    roles: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the clusters or administrators of TENANT; omitted options keep their values."""
    old = target.run(lambda client: client.get(_path_of_tenants(tenant)))
    info = {
        **old,
        "allowedClusters": list(clusters) or old["allowedClusters"],
        "adminRoles": list(roles) or old["adminRoles"],
    }
    sentence = (
        f"let tenant {tenant} use {', '.join(info['allowedClusters'])}, "
        f"administered by {', '.join(info['adminRoles']) or 'nobody'}"
    )
    change = VerbChange("POST", _path_of_tenants(tenant), body=info)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"updated tenant {tenant}")


@tenants.command(name="delete", epilog=_TENANTS_EXAMPLES)
@click.argument("tenant")
@change_options
@daemon_options
def tenants_delete(target: Target, *, tenant: str, dry_run: bool, yes: bool) -> None:
    """Delete TENANT; refused while it has namespaces."""
    change = VerbChange("DELETE", _path_of_tenants(tenant))
    if check_and_confirm(target, change, f"delete tenant {tenant}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted tenant {tenant}")


async def _info(
    client: "DaemonClient", clusters: tuple[str, ...], roles: tuple[str, ...]
) -> dict[str, Any]:
    """A new tenant; by default it may use all clusters, as with pulsar-admin."""
    allowed = list(clusters) or await client.get("/admin/v2/clusters")
    return {"adminRoles": list(roles), "allowedClusters": allowed}
