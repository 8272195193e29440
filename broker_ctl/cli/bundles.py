"""``broker-ctl bundles``, ``namespaces`` and ``topics``: list, look up, unload, split, move."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.output import echo, echo_json, print_facts, print_table
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    VerbGroup,
    audit_fields,
    change_options,
    check_and_confirm,
    confirm,
    report_result,
    send,
    send_dry_run,
)

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient
    from broker_ctl.core.model.names import Bundle, Namespace, Topic


# Shared by the commands for bundles: examples and owners.


_OWNERS: Final = "/control/v1/owners"
EXAMPLES: Final = """\b
Examples:
  broker-ctl bundles list shop/orders
  broker-ctl bundles list shop/orders --sort load
  broker-ctl bundles owner shop/orders/0x00000000_0x40000000
  broker-ctl bundles unload shop/orders/0x00000000_0x40000000 --dry-run
  broker-ctl bundles split shop/orders/0x00000000_0x40000000 --at 0x10000000
  broker-ctl bundles split shop/orders/HOT
  broker-ctl bundles merge shop/orders/0x00000000_0x10000000
  broker-ctl bundles move shop/orders/0x00000000_0x40000000 broker-2:8080
"""


async def owner_rows(client: "DaemonClient", namespace: "Namespace") -> list[dict[str, Any]]:
    """The owners of the bundles of a namespace."""
    rows: list[dict[str, Any]] = await client.get(_OWNERS, {"namespace": str(namespace)})
    return rows


async def owner_row(client: "DaemonClient", bundle: "Bundle") -> dict[str, Any]:
    """The owner of a bundle.

    Raises:
        ClickException: the namespace has no such bundle.
    """
    for row in await owner_rows(client, bundle.namespace):
        if row["bundle"] == str(bundle):
            return row
    raise no_bundle(bundle)


def no_bundle(bundle: "Bundle") -> click.ClickException:
    """The error for a range that is not in the ring."""
    return click.ClickException(
        f"{bundle} is not a bundle: see broker-ctl bundles list {bundle.namespace}"
    )


# ``broker-ctl bundles split`` and ``merge``.


@click.command(cls=VerbCommand, epilog=EXAMPLES)
@click.argument("bundle")
@click.option("--algorithm", help="[default: defaultNamespaceBundleSplitAlgorithm of the broker]")
@click.option(
    "--at",
    "positions",
    multiple=True,
    metavar="HASH",
    help="Hash at which to split, such as 0x10000000; repeatable.",
)
@click.option(
    "--unload",
    "wants_unload",
    is_flag=True,
    help="Unload the resulting bundles, so that less loaded brokers may own them.",
)
@change_options
@daemon_options
def split(
    target: Target,
    *,
    bundle: str,
    algorithm: str | None,
    positions: tuple[str, ...],
    wants_unload: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Split BUNDLE; the resulting bundles stay with its owner unless --unload is given.

    In place of the range, LARGEST names the bundle with the most topics, and HOT the one with the
    most traffic.
    """
    from broker_ctl.cli.runtime.client import namespace_path

    namespace, label = _split_target(bundle)
    points = [_position(text) for text in positions]
    if points:
        algorithm = algorithm or "specified_positions_divide"
    query = {"unload": str(wants_unload).lower(), "by": audit_fields("")["by"]}
    if algorithm:
        query["splitAlgorithmName"] = algorithm

    def split_request(span: str) -> VerbChange:
        return VerbChange("PUT", f"{namespace_path(namespace)}/{span}/split", query, points or None)

    found = send_dry_run(target, split_request(label))
    bundle, span = found["bundle"], found["bundle"].rpartition("/")[2]
    if span != label:
        # LARGEST or HOT: split the bundle that the leader named, even if another is larger by then.
        found = send_dry_run(target, split_request(span))
    where = f" into {', '.join(found['children'])}" if found["children"] else ""
    sentence = f"split {bundle} of {found['owner'] or 'its assigned broker'}{where}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        return

    async def split_bundle(client: "DaemonClient") -> list[str]:
        before = {row["bundle"] for row in await owner_rows(client, namespace)}
        await client.request("PUT", split_request(span).path, query, points or None)
        rows = await owner_rows(client, namespace)
        return [row["bundle"] for row in rows if row["bundle"] not in before]

    children = target.run(split_bundle)
    if not children:
        raise click.ClickException(f"{bundle}: nothing to split")
    report_result(target, "split", f"split {bundle} into {', '.join(children)}", children=children)


def _split_target(text: str) -> "tuple[Namespace, str]":
    """The namespace, and the range, LARGEST or HOT."""
    from broker_ctl.core.model.names import Bundle, Namespace
    from broker_ctl.core.strategies.splitting.candidates import SPECIAL_NAMES

    rest, _, label = text.rpartition("/")
    if label in SPECIAL_NAMES:
        return Namespace.parse(rest), label
    name = Bundle.parse(text)
    return name.namespace, str(name.range)


@click.command(cls=VerbCommand, epilog=EXAMPLES)
@click.argument("bundle")
@click.option("--with", "other", metavar="BUNDLE", help="Adjacent bundle.  [default: the next one]")
@change_options
@daemon_options
def merge(target: Target, *, bundle: str, other: str | None, dry_run: bool, yes: bool) -> None:
    """Merge BUNDLE with an adjacent bundle; if they have different owners, one is moved first."""
    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.core.model.names import Bundle

    name = Bundle.parse(bundle)
    rows = target.run(lambda client: owner_rows(client, name.namespace))
    ring = {Bundle.parse(row["bundle"]): row["owner"] for row in rows}
    left, right = _neighbours(ring, name, None if other is None else Bundle.parse(other))
    owners = " and ".join(sorted({ring[one] or "no owner" for one in (left, right)}))
    sentence = f"merge {left} and {right.range} of {owners}"
    query = {"with": str((right if name == left else left).range), "by": audit_fields("")["by"]}
    change = VerbChange("PUT", bundle_path(name, "merge"), query)
    found = send_dry_run(target, change)
    if note := found.get("note"):
        sentence = f"{sentence}; {note}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        whole = left.joined(right)
        report_result(
            target, "merged", f"merged {left} and {right.range}: {whole}", bundle=str(whole)
        )


def _neighbours(
    ring: "Mapping[Bundle, str | None]", bundle: "Bundle", other: "Bundle | None"
) -> "tuple[Bundle, Bundle]":
    """The two bundles to merge, the lower range first.

    Raises:
        ClickException: one is not a bundle, or they are not adjacent.
    """
    if bundle not in ring:
        raise no_bundle(bundle)
    if other is None:
        found = [one for one in ring if one.range.low == bundle.range.high]
        if not found:
            raise click.ClickException(
                f"{bundle} is the last bundle: name its neighbour with --with"
            )
        (other,) = found
    if other not in ring:
        raise no_bundle(other)
    left, right = sorted((bundle, other))
    left.joined(right)
    return left, right


def _position(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a hash such as 0x10000000", param_hint="--at"
        ) from None


# ``broker-ctl bundles``: list, unload, split, merge and move bundles.


_SORT_ORDERS: Final = ("bundle", "load")
_LIST_COLUMNS: Final = ("bundle", "owner", "token", "msg/s", "MiB/s", "note")
_CLUSTER: Final = "/control/v1/cluster"


@click.group(cls=VerbGroup, epilog=EXAMPLES)
def bundles() -> None:
    """Manage bundles. A BUNDLE is tenant/namespace/0xLOW_0xHIGH, as `bundles list` prints it."""


@bundles.command(name="list", epilog=EXAMPLES)
@click.argument("namespace")
@click.option(
    "--sort",
    "order",
    type=click.Choice(_SORT_ORDERS),
    default=_SORT_ORDERS[0],
    show_default=True,
    help="Sort order: position in the hash ring, or highest throughput first.",
)
@daemon_options
def list_(target: Target, *, namespace: str, order: str) -> None:
    """List the bundles of NAMESPACE with their owners and their load.

    The leader provides the load of the busiest bundles of the cluster; "-" if it is unknown or
    there is no leader.
    """
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    rows = _sort_rows(target.run(lambda client: _rows_with_load(client, name)), order)
    if target.is_json:
        echo_json(rows)
    else:
        print_table("", _LIST_COLUMNS, map(_list_cells, rows))


@bundles.command(epilog=EXAMPLES)
@click.argument("bundle")
@daemon_options
def owner(target: Target, *, bundle: str) -> None:
    """Show the owner of BUNDLE."""
    from broker_ctl.core.model.names import Bundle

    name = Bundle.parse(bundle)
    row = target.run(lambda client: owner_row(client, name))
    if target.is_json:
        echo_json(row)
    else:
        print_table("", ("bundle", "owner", "token", "note"), [row.values()])


@bundles.command(epilog=EXAMPLES)
@click.argument("bundle")
@change_options
@daemon_options
def unload(target: Target, *, bundle: str, dry_run: bool, yes: bool) -> None:
    """Unload BUNDLE from its owner; the next lookup places it again."""
    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.core.model.names import Bundle

    name = Bundle.parse(bundle)
    change = VerbChange("PUT", bundle_path(name, "unload"))
    held = send_dry_run(target, change)["owner"]
    if held is None:
        report_result(target, "nothing", f"{name} has no owner: nothing to unload")
    elif confirm(target, f"unload {name} from {held}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {name} from {held}")


@bundles.command(epilog=EXAMPLES)
@click.argument("bundle")
@click.argument("destination", metavar="BROKER")
@change_options
@daemon_options
def move(target: Target, *, bundle: str, destination: str, dry_run: bool, yes: bool) -> None:
    """Move BUNDLE to BROKER; returns once BROKER serves it.

    Pauses and budgets do not apply.
    """
    import time

    from broker_ctl.cli.runtime.client import bundle_path
    from broker_ctl.cli.runtime.progress import spinner
    from broker_ctl.core.model.names import Bundle

    name = Bundle.parse(bundle)
    query = {"destinationBroker": destination, "by": audit_fields("")["by"]}
    change = VerbChange("PUT", bundle_path(name, "unload"), query)
    held = send_dry_run(target, change)["from"]
    if held == destination:
        report_result(target, "nothing", f"{destination} already owns {name}")
        return
    source = f" from {held}" if held else ""
    sentence = f"move {name}{source} to {destination}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes):
        return
    began_s = time.monotonic()
    with spinner(target, sentence):
        send(target, change)
    took_s = time.monotonic() - began_s
    report_result(
        target, "moved", f"moved {name} to {destination} in {took_s:.1f} s", took_s=took_s
    )


bundles.add_command(split)
bundles.add_command(merge)


async def _rows_with_load(client: "DaemonClient", namespace: "Namespace") -> list[dict[str, Any]]:
    """The bundles in ring order with their load, None if unknown."""
    rows, loads = await owner_rows(client, namespace), await _loads(client)
    return [{**row, **_load_of(loads.get(row["bundle"], {}))} for row in rows]


async def _loads(client: "DaemonClient") -> dict[str, Mapping[str, Any]]:
    """The load of the busiest bundles of the cluster; empty without a leader."""
    from broker_ctl.errors import HttpError

    try:
        seen = await client.get(_CLUSTER)
    except HttpError as error:
        # Owners are known without a leader.
        echo(f"the load is unknown: {error}", err=True)
        return {}
    return {row["bundle"]: row for row in seen["bundles"]}


def _load_of(known: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: known.get(name) for name in ("msg_per_s", "throughput_bytes_per_s")}


def _sort_rows(rows: Iterable[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """The rows in ring order, or by load: highest first, unknown last."""
    if order == "bundle":
        return list(rows)
    return sorted(rows, key=_throughput, reverse=True)


def _throughput(row: Mapping[str, Any]) -> float:
    known: float | None = row["throughput_bytes_per_s"]
    return -1.0 if known is None else known


def _list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    from broker_ctl.core.rules.leader_rules import MIB

    throughput = row["throughput_bytes_per_s"]
    mib = None if throughput is None else throughput / MIB
    return row["bundle"], row["owner"], row["token"], row["msg_per_s"], mib, row["note"]


# ``broker-ctl topics lookup``: the broker that serves a topic.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics lookup persistent://shop/orders/new
  broker-ctl topics lookup shop/orders/new --output json
"""


@click.command(cls=VerbCommand, name="lookup", epilog=_EXAMPLES)
@click.argument("topic")
@daemon_options
def lookup(target: Target, *, topic: str) -> None:
    """Look up TOPIC as a client would, following redirects; a bundle without an owner is assigned.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    found = target.run(lambda client: look_up(client, name))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found | {"redirects": " -> ".join(found["redirects"])})


async def look_up(client: "DaemonClient", topic: "Topic") -> dict[str, Any]:
    """The broker and the bundle of a topic, with the redirects of the lookup."""
    from urllib.parse import quote

    namespace = topic.namespace
    local = quote(topic.local, safe="")
    path = f"/lookup/v2/topic/{topic.domain}/{namespace.tenant}/{namespace.name}/{local}"
    hops: list[str] = []
    answer = (await client.request("GET", path, hops=hops)).json()
    span = (await client.request("GET", f"{path}/bundle")).body.decode()
    return {
        "topic": str(topic),
        "bundle": f"{namespace}/{span}",
        "broker": answer["brokerId"],
        "url": answer.get("brokerUrl"),
        "url_tls": answer.get("brokerUrlTls"),
        "web_url": answer.get("httpUrl"),
        "redirects": hops,
    }


# ``broker-ctl namespaces``: create, list, unload and delete namespaces; set their clusters.


_CREATE: Final = """\b
Examples:
  broker-ctl namespaces create shop/orders
  broker-ctl namespaces create shop/orders --bundles 16
"""
_LIST: Final = """\b
Examples:
  broker-ctl namespaces list
  broker-ctl namespaces list shop
"""
_UNLOAD: Final = """\b
Examples:
  broker-ctl namespaces unload shop/orders --dry-run
  broker-ctl namespaces unload shop/orders --yes
"""
_DELETE: Final = """\b
Examples:
  broker-ctl namespaces delete shop/orders --yes
"""
_IN_CLUSTERS: Final = """\b
Examples:
  broker-ctl namespaces get-clusters shop/orders
  broker-ctl namespaces set-clusters shop/orders --cluster east --cluster west --dry-run
"""


@click.group(
    cls=VerbGroup,
    epilog=_CREATE,
)
def namespaces() -> None:
    """Manage namespaces: named sets of topics that share one hash ring of bundles."""


@namespaces.command(epilog=_CREATE)
@click.argument("namespace")
@click.option(
    "--bundles",
    type=click.IntRange(1, 65_536),
    help="Number of bundles, of equal size.  [default: defaultNumberOfNamespaceBundles]",
)
@change_options
@daemon_options
def create(
    target: Target, *, namespace: str, bundles: int | None, dry_run: bool, yes: bool
) -> None:
    """Create NAMESPACE (tenant/name); `broker-ctl tenants create` creates its tenant."""
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    body = None if bundles is None else {"bundles": {"numBundles": bundles}}
    change = VerbChange("PUT", namespace_path(name), body=body)
    found = send_dry_run(target, change)
    sentence = f"create {name} with {found['bundles']} bundles"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        send(target, change)
        report_result(target, "created", f"created {name} with {found['bundles']} bundles")


@namespaces.command(name="list", epilog=_LIST)
@click.argument("tenant", required=False)
@daemon_options
def namespaces_list_(target: Target, *, tenant: str | None) -> None:
    """List the namespaces of TENANT, or of all tenants."""
    names = target.run(lambda client: _names(client, tenant))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("namespace",), ([name] for name in names))


@namespaces.command(epilog=_DELETE)
@click.argument("namespace")
@change_options
@daemon_options
def delete(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Delete NAMESPACE; refused while any of its bundles has an owner."""
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    change = VerbChange("DELETE", namespace_path(name))
    if check_and_confirm(target, change, f"delete {name}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted {name}")


@namespaces.command(name="unload", epilog=_UNLOAD)
@click.argument("namespace")
@change_options
@daemon_options
def namespaces_unload(target: Target, *, namespace: str, dry_run: bool, yes: bool) -> None:
    """Unload all bundles of NAMESPACE from their owners.

    The next lookup of a topic places its bundle again. `delete` requires this first.
    """
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    name = Namespace.parse(namespace)
    change = VerbChange("PUT", f"{namespace_path(name)}/unload")
    owners = send_dry_run(target, change)["owners"]
    if not owners:
        report_result(target, "nothing", f"no bundle of {name} has an owner: nothing to unload")
        return
    whose = ", ".join(f"{count} of {broker}" for broker, count in sorted(owners.items()))
    sentence = f"unload {sum(owners.values())} bundles of {name}: {whose}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, owners=owners):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {sum(owners.values())} bundles of {name}")


@namespaces.command(name="get-clusters", epilog=_IN_CLUSTERS)
@click.argument("namespace")
@daemon_options
def get_clusters(target: Target, *, namespace: str) -> None:
    """List the clusters of NAMESPACE."""
    path = _replication_path(namespace)
    names = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(names)
    else:
        print_table("", ("cluster",), ([name] for name in names))


@namespaces.command(name="set-clusters", epilog=_IN_CLUSTERS)
@click.argument("namespace")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    required=True,
    help="Cluster that the tenant may use; repeatable.",
)
@change_options
@daemon_options
def set_clusters(
    target: Target, *, namespace: str, clusters: tuple[str, ...], dry_run: bool, yes: bool
) -> None:
    """Set the clusters of NAMESPACE, replacing all previous ones."""
    change = VerbChange("POST", _replication_path(namespace), body=list(clusters))
    sentence = f"set the clusters of {namespace} to {', '.join(clusters)}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"{namespace} has the clusters {', '.join(clusters)}")


def _replication_path(namespace: str) -> str:
    from broker_ctl.cli.runtime.client import namespace_path
    from broker_ctl.core.model.names import Namespace

    return f"{namespace_path(Namespace.parse(namespace))}/replication"


async def _names(client: "DaemonClient", tenant: str | None) -> list[str]:
    from urllib.parse import quote

    tenants = [tenant] if tenant else await client.get("/admin/v2/tenants")
    lists = [await client.get(f"/admin/v2/namespaces/{quote(each, safe='')}") for each in tenants]
    return [name for names in lists for name in names]


# ``broker-ctl topics``: partitioned topics; the commands are named as in pulsar-admin.


_PARTITIONED_TOPICS_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics create-partitioned-topic shop/orders/new --partitions 8
  broker-ctl topics update-partitioned-topic shop/orders/new --partitions 16 --dry-run
  broker-ctl topics list-partitioned-topics shop/orders
  broker-ctl topics get-partitioned-topic-metadata shop/orders/new
  broker-ctl topics partitioned-lookup shop/orders/new --output json
  broker-ctl topics delete-partitioned-topic shop/orders/new --yes
"""
# The daemon's own bound; its settings may lower it.
_NUMBER: Final = click.IntRange(1, 65_536)
# A daemon limits concurrent lookups, and other clients need some of them.
_MOST_AT_ONCE: Final = 16


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("topic")
@click.option("--partitions", "-p", type=_NUMBER, required=True, help="Number of partitions.")
@change_options
@daemon_options
def create_partitioned_topic(
    target: Target, *, topic: str, partitions: int, dry_run: bool, yes: bool
) -> None:
    """Create the partitioned topic TOPIC; clients then find its partitions and open them."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    change = VerbChange("PUT", _partitions_path(name), body=partitions)
    sentence = f"create {name} with {partitions} partitions"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "created", f"created {name} with {partitions} partitions")


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("topic")
@click.option("--partitions", "-p", type=_NUMBER, required=True, help="Total number of partitions.")
@change_options
@daemon_options
def update_partitioned_topic(
    target: Target, *, topic: str, partitions: int, dry_run: bool, yes: bool
) -> None:
    """Increase the number of partitions of TOPIC; it cannot be decreased.

    Producers that choose a partition by message key then send some keys to other partitions.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _partitions_of(client, name))
    sentence = f"update {name} from {held} to {partitions} partitions"
    change = VerbChange("POST", _partitions_path(name), body=partitions)
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "updated", f"{name} now has {partitions} partitions")


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def delete_partitioned_topic(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Delete the partition metadata of TOPIC; clients then treat it as an unpartitioned topic.

    Brokers keep loaded partitions and their stored data.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _partitions_of(client, name))
    sentence = f"delete partitioned topic {name}, which has {held} partitions"
    change = VerbChange("DELETE", _partitions_path(name))
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted partitioned topic {name}")


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("namespace")
@daemon_options
def list_partitioned_topics(target: Target, *, namespace: str) -> None:
    """List the partitioned topics of NAMESPACE, persistent ones first."""
    from broker_ctl.core.model.names import DOMAINS, Namespace

    name = Namespace.parse(namespace)

    async def names_of(client: "DaemonClient") -> list[str]:
        lists = [await client.get(f"/admin/v2/{domain}/{name}/partitioned") for domain in DOMAINS]
        return [topic for topics in lists for topic in topics]

    topics = target.run(names_of)
    if target.is_json:
        echo_json(topics)
    else:
        print_table("", ("partitioned topic",), ([topic] for topic in topics))


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("topic")
@daemon_options
def get_partitioned_topic_metadata(target: Target, *, topic: str) -> None:
    """Show the number of partitions of TOPIC; 0 if it is unpartitioned or unknown."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    found = target.run(lambda client: client.get(_partitions_path(name)))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)


@click.command(cls=VerbCommand, epilog=_PARTITIONED_TOPICS_EXAMPLES)
@click.argument("topic")
@daemon_options
def partitioned_lookup(target: Target, *, topic: str) -> None:
    """Look up each partition of TOPIC; bundles without an owner are assigned.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    rows = target.run(lambda client: _look_up_all(client, name))
    if target.is_json:
        echo_json(rows)
    else:
        columns = ("topic", "broker", "bundle", "url")
        print_table("", columns, ([row[column] for column in columns] for row in rows))


PARTITIONED_VERBS: Final = (
    create_partitioned_topic,
    update_partitioned_topic,
    delete_partitioned_topic,
    list_partitioned_topics,
    get_partitioned_topic_metadata,
    partitioned_lookup,
)


async def _look_up_all(client: "DaemonClient", topic: "Topic") -> list[dict[str, Any]]:
    import asyncio

    from broker_ctl.core.model.names import Topic

    names = [f"{topic.local}-partition-{i}" for i in range(await _partitions_of(client, topic))]
    waiting = iter([Topic.of(topic.domain, topic.namespace, name) for name in names])
    found: dict[str, dict[str, Any]] = {}

    async def work() -> None:
        for partition in waiting:
            found[partition.local] = await look_up(client, partition)

    async with asyncio.TaskGroup() as group:
        for number in range(min(_MOST_AT_ONCE, len(names))):
            group.create_task(work(), name=f"lookups {number}")
    return [found[name] for name in names]


async def _partitions_of(client: "DaemonClient", topic: "Topic") -> int:
    """The number of partitions.

    Raises:
        ClickException: the topic is not partitioned.
    """
    partitions: int = (await client.get(_partitions_path(topic)))["partitions"]
    if not partitions:
        raise click.ClickException(
            f"{topic} is not partitioned: see broker-ctl topics list-partitioned-topics "
            f"{topic.namespace}"
        )
    return partitions


def _partitions_path(topic: "Topic") -> str:
    return f"/admin/v2/{topic_path(topic)}/partitions"


def topic_path(topic: "Topic") -> str:
    """A topic as part of a path in the API."""
    from urllib.parse import quote

    namespace, local = topic.namespace, quote(topic.local, safe="")
    return f"{topic.domain}/{quote(namespace.tenant)}/{quote(namespace.name)}/{local}"


# ``broker-ctl topics``: look up, unload and partition topics.


_TOPICS_EXAMPLES: Final = """\b
Examples:
  broker-ctl topics unload persistent://shop/orders/new --dry-run
  broker-ctl topics unload shop/orders/new-partition-0 --yes
  broker-ctl topics bundle-range shop/orders/new-partition-0
  broker-ctl topics create-partitioned-topic shop/orders/new --partitions 8
  broker-ctl topics partitioned-lookup shop/orders/new
"""


@click.group(cls=VerbGroup, epilog=_TOPICS_EXAMPLES)
def topics() -> None:
    """Manage topics."""


@topics.command(name="unload", epilog=_TOPICS_EXAMPLES)
@click.argument("topic")
@change_options
@daemon_options
def topics_unload(target: Target, *, topic: str, dry_run: bool, yes: bool) -> None:
    """Close TOPIC at its broker; its next client reopens it there.

    The bundle stays with its owner: to move the topic, unload or move its bundle. For a
    partitioned topic, name a partition.

    TOPIC is a complete name, tenant/namespace/name, or a name in public/default.
    """
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    held = target.run(lambda client: _bundle_row(client, name))
    owner, bundle = held["owner"], held["bundle"]
    if owner is None:
        report_result(target, "nothing", f"{bundle} has no owner: {name} is not loaded")
        return
    change = VerbChange("PUT", f"/admin/v2/{topic_path(name)}/unload")
    sentence = f"unload {name} of {bundle} at {owner}"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "unloaded", f"unloaded {name}; {bundle} stays at {owner}")


@topics.command(epilog=_TOPICS_EXAMPLES)
@click.argument("topic")
@daemon_options
def bundle_range(target: Target, *, topic: str) -> None:
    """Show the hash range of the bundle of TOPIC; nothing is assigned."""
    from broker_ctl.core.model.names import Topic

    name = Topic.parse(topic)
    span = target.run(lambda client: _range_of(client, name))
    if target.is_json:
        echo_json({"topic": str(name), "range": span})
    else:
        echo(span)


for _verb in PARTITIONED_VERBS:
    topics.add_command(_verb)
topics.add_command(lookup)


async def _bundle_row(client: "DaemonClient", topic: "Topic") -> dict[str, Any]:
    from broker_ctl.core.model.names import Bundle

    # A lookup would assign an unowned bundle.
    span = await _range_of(client, topic)
    return await owner_row(client, Bundle.parse(f"{topic.namespace}/{span}"))


async def _range_of(client: "DaemonClient", topic: "Topic") -> str:
    path = f"/lookup/v2/topic/{topic_path(topic)}/bundle"
    return (await client.request("GET", path)).body.decode()
