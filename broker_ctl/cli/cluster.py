"""``broker-ctl brokers``, ``status``, ``leader``, ``history``, ``explain`` and others."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.monitor import command as monitor
from broker_ctl.cli.runtime.output import (
    PastTime,
    echo,
    echo_json,
    escape_values,
    print_facts,
    print_table,
    reason_first,
    sentence_of,
    shared_namespace,
    time_text,
    value_text,
)
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    VerbGroup,
    change_options,
    check_and_confirm,
    confirm,
    is_on_screen,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.core.model.safe_text import escape

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient


# Rows of `brokers list`: the live brokers, with data of the leader and the controller.


LIST_COLUMNS: Final = ("broker", "leads", "brokerId", "version", "running since", "state")
_BROKERS: Final = "/admin/v2/brokers"
_CLUSTER: Final = "/control/v1/cluster"
_CONTROLLER: Final = "/control/v1/partitions/controller"


async def broker_rows(client: "DaemonClient") -> list[dict[str, Any]]:
    """One row per live broker; unknown fields are None."""
    # Every daemon knows the live brokers; an unreachable daemon fails here.
    ids = await client.get(_BROKERS)
    leader_id = await _leader(client)
    overview = {} if leader_id is None else await _cluster_overview(client)
    numbers = await _broker_ids(client)
    known = {row["broker"]: row for row in overview.get("brokers", ())}
    sources = {move["from"] for move in overview.get("moves", ())}
    return [
        {
            "broker": broker_id,
            "leads": broker_id == leader_id,
            "broker_id": numbers.get(broker_id),
            **_report_fields(known.get(broker_id, {}), is_source=broker_id in sources),
        }
        for broker_id in ids
    ]


async def _leader(client: "DaemonClient") -> str | None:
    from broker_ctl.errors import HttpError

    try:
        found: str = (await client.get(f"{_BROKERS}/leaderBroker"))["brokerId"]
    except HttpError:
        return None
    return found


async def _cluster_overview(client: "DaemonClient") -> Mapping[str, Any]:
    from broker_ctl.errors import HttpError

    try:
        overview: Mapping[str, Any] = await client.get(_CLUSTER)
    except HttpError as error:
        # Every role may list the brokers; the leader's overview needs one of operators or viewers.
        echo(f"version, start and state are unknown: {error}", err=True)
        return {}
    return overview


async def _broker_ids(client: "DaemonClient") -> dict[str, int]:
    """Broker ids by daemon; empty without a controller."""
    from broker_ctl.errors import HttpError

    try:
        rows = (await client.get(_CONTROLLER))["brokers"]
    except HttpError:
        return {}
    return {row["daemon"]: row["broker"] for row in rows if row["daemon"]}


def _report_fields(row: Mapping[str, Any], *, is_source: bool) -> dict[str, Any]:
    fields = {name: row.get(name) for name in ("version", "started_ms")}
    if not row:
        return {**fields, "state": None}
    if not row["is_draining"]:
        return {**fields, "state": "ready"}
    return {**fields, "state": "draining" if row["bundles"] or is_source else "drained"}


def list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    names = ("broker", "leads", "broker_id", "version")
    return *(row[name] for name in names), value_text("started_ms", row["started_ms"]), row["state"]


# ``broker-ctl brokers``: the live brokers and their load.


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


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def brokers() -> None:
    """List live brokers; show the load and topics of one; monitor the load of all."""


@brokers.command(name="list", epilog=_EXAMPLES)
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


@brokers.command(name="load-report", epilog=_EXAMPLES)
@daemon_options
def load_report(target: Target) -> None:
    """Show the current load report of the broker at --url."""
    report = target.run(lambda client: client.get(f"{_STATISTICS}/load-report"))
    if target.is_json:
        echo_json(report)
    else:
        print_facts("", {name: part for name, part in report.items() if name not in _PER_BUNDLE})


@brokers.command(epilog=_EXAMPLES)
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


brokers.add_command(monitor)


def _topic_rows(found: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    from broker_ctl.core.model.load import throughput_text

    for namespace, bundles in found.items():
        for span, domains in bundles.items():
            for lines in domains.values():
                for name, line in lines.items():
                    counts = (line[field] for field in _COUNT_FIELDS)
                    throughput = (throughput_text(line[field]) for field in _THROUGHPUT_FIELDS)
                    yield name, f"{namespace}/{span}", *counts, *throughput


# ``broker-ctl configuration``: dynamic settings of all brokers.


_CONFIGURATION: Final = "/admin/v2/brokers/configuration"
_CONFIGURATION_EXAMPLES: Final = """\b
Examples:
  broker-ctl configuration list
  broker-ctl configuration show loadBalancerSheddingIntervalMinutes
  broker-ctl configuration set loadBalancerSheddingIntervalMinutes 0.5
  broker-ctl configuration set dryRun true --yes
  broker-ctl configuration delete dryRun
"""


@click.group(
    cls=VerbGroup,
    epilog=_CONFIGURATION_EXAMPLES,
)
def configuration() -> None:
    """Manage overrides of dynamic settings, which apply to all brokers immediately until deleted.

    The settings that a broker starts with are in its own file: see `broker-ctl config`.
    """


@configuration.command(name="list", epilog=_CONFIGURATION_EXAMPLES)
@daemon_options
def configuration_list_(target: Target) -> None:
    """List the dynamic settings with their values on this broker."""
    rows = target.run(_rows)
    _print(target, rows, rows)


@configuration.command(epilog=_CONFIGURATION_EXAMPLES)
@click.argument("key")
@daemon_options
def show(target: Target, *, key: str) -> None:
    """Show the value of KEY on this broker, and its override."""
    row = next((row for row in target.run(_rows) if row["key"] == key), None)
    if row is None:
        raise click.ClickException(
            f"{key} is not a dynamic setting: see broker-ctl configuration list"
        )
    _print(target, row, [row])


@configuration.command(name="set", epilog=_CONFIGURATION_EXAMPLES)
@click.argument("key")
@click.argument("value")
@change_options
@daemon_options
def set_(target: Target, *, key: str, value: str, dry_run: bool, yes: bool) -> None:
    """Override KEY with VALUE on all brokers."""
    change = VerbChange("POST", f"{_CONFIGURATION}/{quote(key, safe='')}/{quote(value, safe='')}")
    sentence = f"override {key} with {value} on all brokers"
    if check_and_confirm(target, change, sentence, dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "set", f"set {key} to {value}")


@configuration.command(epilog=_CONFIGURATION_EXAMPLES)
@click.argument("key")
@change_options
@daemon_options
def delete(target: Target, *, key: str, dry_run: bool, yes: bool) -> None:
    """Delete the override of KEY: each broker returns to the value with which it started."""
    change = VerbChange("DELETE", f"{_CONFIGURATION}/{quote(key, safe='')}")
    if not send_dry_run(target, change)["was_overridden"]:
        report_result(target, "nothing", f"{key} is not overridden")
    elif confirm(target, f"delete the override of {key}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "deleted", f"deleted the override of {key}")


async def _rows(client: "DaemonClient") -> list[dict[str, Any]]:
    names = await client.get(_CONFIGURATION)
    overrides = await client.get(f"{_CONFIGURATION}/values")
    effective = await client.get(f"{_CONFIGURATION}/runtime")
    return [
        {"key": name, "override": overrides.get(name), "effective": effective.get(name)}
        for name in names
    ]


def _print(target: Target, found: Any, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json(found)
    else:
        print_table("", ("key", "override", "effective"), (row.values() for row in rows))


# ``broker-ctl explain``: the reasons for the decisions on a broker or a bundle.


_EXPLAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl explain broker-2:8080
  broker-ctl explain shop/orders/0x00000000_0x40000000
"""


@click.command(cls=VerbCommand, epilog=_EXPLAIN_EXAMPLES)
@click.argument("subject", metavar="BROKER|BUNDLE")
@daemon_options
def explain(target: Target, *, subject: str) -> None:
    """Show the leader's view of a broker or a bundle, and its latest decision with the reason."""
    query = {"subject": subject}
    known = target.run(lambda client: client.get("/control/v1/explain", query))
    if target.is_json:
        echo_json(known)
    else:
        print_facts(subject, known)


# ``broker-ctl history``: recent decisions of the leader and their results.


_HISTORY: Final = "/control/v1/history"
_KINDS: Final = ("assign", "transfer", "split", "merge", "skip")
_RESULTS: Final = ("done", "failed", "dry_run", "paused", "held_back", "skipped")
_COLUMNS: Final = ("when", "cycle", "result", "decision", "outcome")
_HISTORY_EXAMPLES: Final = """\b
Examples:
  broker-ctl history
  broker-ctl history --kind transfer --since 2h
  broker-ctl history --since 2030-01-31T03:00 --until 2030-01-31T03:20
  broker-ctl history --result failed --since 1d
  broker-ctl history --broker broker-2:8080 --limit 20
  broker-ctl history --bundle shop/orders/0x00000000_0x40000000 --since 1d
  broker-ctl history --bundle shop/orders/0x00000000_0x40000000 --output json
"""


@click.command(cls=VerbCommand, epilog=_HISTORY_EXAMPLES)
@click.option("--kind", type=click.Choice(_KINDS), help="Only decisions of this kind.")
@click.option("--result", type=click.Choice(_RESULTS), help="Only decisions with this result.")
@click.option("--broker", metavar="BROKER", help="Only decisions about this broker.")
@click.option("--bundle", metavar="BUNDLE", help="Only decisions about this bundle.")
@click.option(
    "--since",
    "since_ms",
    type=PastTime(),
    metavar="TIME",
    help="Only from then on: 90s, 15m, 2h or 1d ago, or 2030-01-31T03:00, local or with a zone.",
)
@click.option(
    "--until", "until_ms", type=PastTime(), metavar="TIME", help="Only up to then, likewise."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@daemon_options
def history(
    target: Target,
    *,
    kind: str | None,
    result: str | None,
    broker: str | None,
    bundle: str | None,
    since_ms: int | None,
    until_ms: int | None,
    limit: int,
) -> None:
    """Show recent decisions of the leader, newest first.

    ZooKeeper keeps several thousand decisions that were carried out, across leader changes; skipped
    decisions are those of the current leader only. With loadHistoryDirectory set, segments on the
    disks of the leaders have all decisions.
    """
    subjects = {"broker": broker, "bundle": bundle}
    wanted = {"kind": kind, "result": result, **subjects, "limit": str(limit)}
    query = {name: text for name, text in wanted.items() if text is not None}
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise click.UsageError("--since is after --until")
    moments = {"since_ms": since_ms, "until_ms": until_ms}
    query |= {name: str(at_ms) for name, at_ms in moments.items() if at_ms is not None}
    rows = target.run(lambda client: client.get(_HISTORY, query))
    if target.is_json:
        echo_json(rows)
    else:
        if sys.stdout.isatty():
            _echo_lines(rows)
        else:
            print_table("", _COLUMNS, map(_cells, rows))
        if not rows:
            click.echo("no decision matches", err=True)


def _echo_lines(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a decision, as wide as the terminal."""
    bundles = [row[name] for row in rows for name in ("bundle", "left") if name in row]
    bundles += [row["subject"] for row in rows if row.get("subject", "").count("/") > 1]
    namespace = shared_namespace(bundles)
    width = shutil.get_terminal_size().columns
    is_cut = False
    for row in rows:
        # Why it failed comes first: the end of a line may be cut.
        outcome = f"{row['outcome']}; " if row["outcome"] else ""
        text = escape(f"{outcome}{reason_first(row, namespace)}")
        line = f"{time_text(row['at_ms'])[5:]}  {row['result']:<7}  {text}"
        is_cut |= len(line) > width
        click.echo(line if len(line) <= width else f"{line[: width - 1]}…")
    notes = [f"all bundles are of {namespace}"] * bool(namespace)
    notes += ["--output wide shows whole lines"] * is_cut
    if notes:
        echo("; ".join(notes), err=True)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    return time_text(row["at_ms"]), row["cycle"], row["result"], sentence_of(row), row["outcome"]


# ``broker-ctl leader``: the leader of the load balancer.


_LEADER_EXAMPLES: Final = """\b
Examples:
  broker-ctl leader show
  broker-ctl leader show --output json
  broker-ctl leader
"""


class _ShowByDefault(VerbGroup):
    """Runs `show` if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `show` before its options; completion still offers the subcommands."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault, epilog=_LEADER_EXAMPLES)
def leader() -> None:
    """Show the leader: the broker that places, sheds and splits the bundles of all brokers.

    Without a subcommand, `broker-ctl leader` does the same as `broker-ctl leader show`.
    """


@leader.command(name="show", epilog=_LEADER_EXAMPLES)
@daemon_options
def leader_show(target: Target) -> None:
    """Show the broker id and the URL of the leader."""
    leader = target.run(lambda client: client.get("/admin/v2/brokers/leaderBroker"))
    if target.is_json:
        echo_json(leader)
    else:
        echo(f"{leader['brokerId']}  {leader['serviceUrl']}")


# ``broker-ctl status``: the state of a broker, or of the cluster as its leader sees it.


_STATUS: Final = "/control/v1/status"

_STATUS_EXAMPLES: Final = """\b
Examples:
  broker-ctl status
  broker-ctl status --watch
  broker-ctl status --cluster --url http://broker-2:8080
  broker-ctl status --output json
"""


@click.command(
    cls=VerbCommand,
    epilog=_STATUS_EXAMPLES,
)
@click.option("--cluster", is_flag=True, help="Show the whole cluster, as its leader sees it.")
@daemon_options
def status(target: Target, *, cluster: bool) -> None:
    """Show session, lease, leadership, bundles and the newest decisions of a broker."""
    path = _CLUSTER if cluster else _STATUS
    state = target.run(lambda client: client.get(path))
    if target.is_json:
        echo_json(state)
    elif is_on_screen():
        _draw(state)
    else:
        _show(state)


def _draw(state: dict[str, Any]) -> None:
    from rich.console import Console

    from broker_ctl.cli.status_screen import render

    console = Console()
    console.print(render(escape_values(state), console.height))


def _show(state: dict[str, Any]) -> None:
    if "brokers" in state:
        from broker_ctl.cli.status_screen import cluster_verdict

        echo(cluster_verdict(state))
        print_facts("", {"brokers": state.pop("brokers")})
        # What is empty, off or zero is in --output wide and json.
        print_facts("", {name: part for name, part in state.items() if part})
        return
    if "journal" in state:
        # A daemon of another version may have none.
        journal = [entry | entry["decision"] for entry in state.pop("journal")]
        state["latest decisions"] = journal
    print_facts(str(state["broker"]), state)
