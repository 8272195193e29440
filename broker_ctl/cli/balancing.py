"""``broker-ctl plan``, ``drain``, ``pause``, ``advise``: what the leader does or leaves."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.output import (
    Time,
    duration_text,
    echo,
    echo_json,
    percent_text,
    print_table,
    time_text,
)
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    audit_fields,
    change_options,
    check_and_confirm,
    confirm,
    reason_option,
    report_result,
    send,
    send_dry_run,
    watch_option,
)
from broker_ctl.codec import decode
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.errors import CorruptRecord

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient


# ``broker-ctl drain`` and ``undrain``: empty a broker, now or later, and use it again.


_DRAINS: Final = "/control/v1/drains"
_STATUS: Final = "/control/v1/status"
_MOST_RECEIVERS: Final = 5
_COLUMNS: Final = ("broker", "state", "bundles left", "load left", "moves/min", "ETA", "by", "why")
_SCHEDULED_COLUMNS: Final = ("broker", "begins", "ends", "by", "why", "obstacle")
_DRAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl drain broker-2:8080 --reason "kernel update" --wait
  broker-ctl drain
  broker-ctl drain broker-2:8080 --dry-run
  broker-ctl drain broker-2:8080 --at 2030-01-31T02:00 --until 2030-01-31T04:00
  broker-ctl drain --self --until-restart --wait --yes
  broker-ctl undrain broker-2:8080
"""
_UNDRAIN_EXAMPLES: Final = """\b
Examples:
  broker-ctl undrain broker-2:8080
"""


@click.command(
    cls=VerbCommand,
    epilog=_DRAIN_EXAMPLES,
)
@click.argument("broker", required=False)
@click.option(
    "--force",
    is_flag=True,
    help="Drain even if the other brokers lack the capacity for its load.",
)
@click.option("--self", "is_self", is_flag=True, help="Drain the broker of the daemon itself.")
@click.option("--at", "begins_ms", type=Time(), metavar="TIME", help="Begin at this time.")
@click.option("--until", "ends_ms", type=Time(), metavar="TIME", help="End the drain at this time.")
@click.option("--until-restart", is_flag=True, help="End the drain when the broker has restarted.")
@click.option("--wait", is_flag=True, help="Wait until the broker is empty.")
@reason_option
@change_options
@watch_option
@daemon_options
def drain(
    target: Target,
    *,
    broker: str | None,
    force: bool,
    is_self: bool,
    begins_ms: int | None,
    ends_ms: int | None,
    until_restart: bool,
    wait: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move all bundles away from BROKER; it receives none until `undrain`.

    Bundles move in batches, which grow while the moves are short; a pause does not stop a drain.
    A drain survives leader changes and, unless --until-restart is given, restarts of BROKER. It is
    refused if the usage of the other brokers would exceed loadBalancerHeadroomLimitPercentage,
    unless --force is given. Without BROKER, all drains are shown, the scheduled ones too.

    TIME is a local time (2030-01-31T02:00), one with a zone (2030-01-31T02:00Z), or an offset from
    now (+2h). A drain with --at waits in ZooKeeper until then and is checked again when it begins;
    the same command again changes nothing, another time replaces the earlier one.
    """
    if is_self:
        if broker is not None:
            raise click.UsageError("give either BROKER or --self")
        broker = str(target.run(lambda client: client.get(_STATUS))["broker"])
    if broker is None:
        _show_drains(target)
        return
    if wait and begins_ms is not None:
        raise click.UsageError("--wait is for drains that begin now, not with --at")
    terms = {"begins_ms": begins_ms, "ends_ms": ends_ms, "until_restart": until_restart or None}
    body = audit_fields(reason) | {key: value for key, value in terms.items() if value is not None}
    change = VerbChange("PUT", _drain_path(broker), {"force": "true"} if force else {}, body)
    found = send_dry_run(target, change)
    sentence = _forecast_sentence(broker, found)
    if not confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found):
        return
    row = send(target, change).json()
    if wait:
        row = _wait_drained(target, broker)
    report_result(target, row["state"], _sentence(row), drain=row)


@click.command(cls=VerbCommand, epilog=_UNDRAIN_EXAMPLES)
@click.argument("broker")
@change_options
@daemon_options
def undrain(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """End the drain of BROKER: it receives bundles again, not necessarily the same ones.

    A drain that is scheduled is cancelled.
    """
    change = VerbChange("DELETE", _drain_path(broker))
    if not send_dry_run(target, change)["was_drained"]:
        report_result(target, "nothing", f"{broker} is not being drained")
    elif confirm(target, f"undrain {broker}", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "undrained", f"{broker} receives bundles again")


def _sentence(row: Mapping[str, Any]) -> str:
    broker, state = row["broker"], row["state"]
    if state == "scheduled":
        return f"{broker} will be drained {_period(row)}; broker-ctl undrain {broker} cancels it"
    if state == "drained":
        return f"{broker} is empty and receives no bundles {_end(row)}"
    if state == "absent":
        return f"{broker} is not registered; it will receive no bundles when it returns"
    bundles = row["bundles_left"]
    return f"draining {broker}: {bundles} bundles left; broker-ctl drain shows the progress"


def _period(row: Mapping[str, Any]) -> str:
    return f"at {time_text(row['begins_ms'])}, {_end(row)}"


def _end(row: Mapping[str, Any]) -> str:
    """When a drain ends: whichever comes first."""
    ends = [f"broker-ctl undrain {row['broker']}"]
    if row.get("until_restart"):
        ends.insert(0, "its restart")
    if row.get("ends_ms"):
        ends.insert(0, time_text(row["ends_ms"]))
    return "until " + " or ".join(ends)


def _show_drains(target: Target) -> None:
    rows = target.run(lambda client: client.get(_DRAINS))
    if target.is_json:
        echo_json(rows)
        return
    _print_drains([row for row in rows if row["state"] != "scheduled"])
    if scheduled := [row for row in rows if row["state"] == "scheduled"]:
        cells = (
            (
                row["broker"],
                time_text(row["begins_ms"]),
                _end(row).removeprefix("until "),
                row["by"],
                row["reason"],
                row["obstacle"],
            )
            for row in scheduled
        )
        print_table("scheduled", _SCHEDULED_COLUMNS, cells)


def _drain_path(broker_id: str) -> str:
    """The path of a broker's drain in the API."""
    return f"{_DRAINS}/{quote(broker_id, safe=':')}"


async def _drain_row(client: "DaemonClient", broker_id: str) -> dict[str, Any]:
    """The progress of a broker's drain.

    Raises:
        ClickException: there is no drain of this broker (any more).
    """
    rows: list[dict[str, Any]] = await client.get(_DRAINS)
    for row in rows:
        if row["broker"] == broker_id:
            return row
    raise click.ClickException(f"{broker_id} is not being drained")


def _print_drains(rows: list[Mapping[str, Any]]) -> None:
    """Print a table of drains."""
    from broker_ctl.core.model.load import throughput_text

    print_table(
        "",
        _COLUMNS,
        (
            (
                row["broker"],
                row["state"],
                f"{row['bundles_left']} of {row['bundles_begun']}",
                throughput_text(row["throughput_left_bytes_per_s"]),
                row["moves_per_s"] * 60,
                duration_text(row["eta_s"]),
                row["by"],
                row["reason"],
            )
            for row in rows
        ),
    )


def _forecast_sentence(broker_id: str, found: Mapping[str, Any]) -> str:
    """What a drain would do, from the leader's dry run."""
    from broker_ctl.core.model.load import throughput_text

    if found.get("state") == "scheduled":
        return f"drain {broker_id} {_period(found)}"
    if "receivers" not in found:
        return f"drain {broker_id}, which is already drained"
    shown = [
        f"{row['broker']} ({row['bundles']}, {percent_text(row['usage_before_ratio'])} -> "
        f"{percent_text(row['usage_after_ratio'])})"
        for row in found["receivers"][:_MOST_RECEIVERS]
    ]
    more = len(found["receivers"]) - len(shown)
    shown += [f"{more} more"] if more else []
    load = throughput_text(found["throughput_bytes_per_s"])
    sentence = f"drain {broker_id}: {found['bundles']} bundles, {load}"
    if shown:
        sentence += f", to {', '.join(shown)}"
    staying = found["staying"]
    if staying:
        first = staying[0]
        sentence += f"; {len(staying)} would stay, first {first['bundle']}: {first['why']}"
    return sentence


def _wait_drained(target: Target, broker_id: str) -> Mapping[str, Any]:
    """Show the progress until the broker is empty or gone."""
    return target.run(
        lambda client: poll_until(
            target,
            lambda: _drain_row(client, broker_id),
            _stage,
            lambda row: row["state"] != "draining",
        )
    )


def _stage(row: Mapping[str, Any]) -> Stage:
    words = f"{row['bundles_left']} bundles left, ETA {duration_text(row['eta_s'])}"
    return Stage(row["progress_ratio"], 1.0, words)


# ``broker-ctl pause`` and ``resume``: no automatic balancing in between.


_PAUSE: Final = "/control/v1/pause"
_PAUSE_EXAMPLES: Final = """\b
Examples:
  broker-ctl pause --reason "network maintenance until 14:00"
  broker-ctl pause --yes
  broker-ctl resume
"""
_RESUME_EXAMPLES: Final = """\b
Examples:
  broker-ctl resume --yes
"""


@click.command(cls=VerbCommand, epilog=_PAUSE_EXAMPLES)
@reason_option
@change_options
@daemon_options
def pause(target: Target, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Pause automatic balancing: decisions are recorded, but nothing moves, splits or merges.

    Moves, drains and approved plans of operators continue, and bundles without an owner are placed.
    The pause survives leader changes and restarts; a second pause changes nothing.
    """
    state = target.run(lambda client: client.get(_PAUSE))
    if state["paused"]:
        by = f" by {state['by']}" if state["by"] else ""
        why = f": {state['reason']}" if state["reason"] else ""
        report_result(target, "paused_already", f"already paused{by}{why}", pause=state)
        return
    change = VerbChange("PUT", _PAUSE, body=audit_fields(reason))
    if check_and_confirm(target, change, "pause the balancing", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, "paused", "paused until broker-ctl resume", pause=row)


@click.command(cls=VerbCommand, epilog=_RESUME_EXAMPLES)
@change_options
@daemon_options
def resume(target: Target, *, dry_run: bool, yes: bool) -> None:
    """Resume automatic balancing after a pause."""
    change = VerbChange("DELETE", _PAUSE)
    if not send_dry_run(target, change)["was_paused"]:
        report_result(target, "nothing", "balancing is not paused")
    elif confirm(target, "resume the balancing", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "resumed", "resumed")


# Reasons of decisions as text; JSON has their ids.


_SENTENCES: Final = {
    Reason.OVERLOADED: "its broker is overloaded",
    Reason.IMBALANCE: "the brokers are unevenly loaded",
    Reason.UNDERLOADED_RECEIVER: "another broker is almost idle",
    Reason.UNOWNED: "it had no owner",
    Reason.DRAIN: "its broker is drained",
    Reason.ADMIN: "an operator requested it",
    Reason.PROFILE: "the daily profile places it elsewhere",
    Reason.SURGE: "traffic has grown many times within a minute",
    Reason.RESERVED: "it is already assigned to that broker",
    Reason.LEAST_MSG_RATE: "that broker has the lowest message rate",
    Reason.ALL_OVERLOADED: "all brokers are overloaded",
    Reason.LEAST_USAGE: "that broker has the lowest usage",
    Reason.ROUND_ROBIN: "it was that broker's turn",
    Reason.DRAWN: "that broker was selected at random",
    Reason.ISOLATION: "an isolation policy forbids it",
    Reason.TOPIC_KIND: "the broker does not serve that kind of topic",
    Reason.ANTI_AFFINITY: "its anti-affinity group forbids it",
    Reason.EVEN_SPREAD: "the namespace would not be spread evenly",
    Reason.VERSION: "the broker has another version",
    Reason.TOPICS: "it has too many topics",
    Reason.SESSIONS: "it has too many producers and consumers",
    Reason.MSG_RATE: "its message rate is too high",
    Reason.BANDWIDTH: "its throughput is too high",
    Reason.BROKER_SHARE: "it uses too large a share of a broker",
    Reason.COLD: "it and its neighbour have almost no traffic",
    Reason.NEW_PART: "it has just been created by a split",
    Reason.TOO_FEW_BROKERS: "there is no other broker",
    Reason.BELOW_THRESHOLD: "nothing is above its threshold",
    Reason.LOW_THROUGHPUT: "it carries too little to be worth a move",
    Reason.SOLE_BUNDLE: "it is its broker's only bundle",
    Reason.NO_BUNDLES: "the broker has no bundles",
    Reason.NO_LOAD_DATA: "there is no load report yet",
    Reason.STALE_REPORT: "the load report is too old",
    Reason.DRAINING: "the broker is drained or stopping",
    Reason.SLOW_BROKER: "the broker is slow",
    Reason.TOO_MANY_SLOW: "too many brokers appear slow for the detection to be trusted",
    Reason.PINNED: "a policy allows no other broker",
    Reason.EXCLUDED: "it is excluded from balancing",
    Reason.NOT_MEASURED: "its load has not been measured yet",
    Reason.IN_GRACE: "it was moved or split recently",
    Reason.MOVING: "it is being moved",
    Reason.GONE: "it no longer exists",
    Reason.NOT_OWNED: "that broker does not own it",
    Reason.NO_BROKER: "no broker may take it",
    Reason.NO_GAIN: "a move would not make the load more even",
    Reason.HOT_TOPIC: "one topic has nearly all of its traffic",
    Reason.TOO_LARGE: "it would overload any other broker",
    Reason.SUPERSEDED: "another decision of the same plan has it",
    Reason.TOO_FEW_TOPICS: "it has too few topics to be split",
    Reason.INDIVISIBLE: "it cannot be split any further",
    Reason.COOLING_DOWN: "it rests after its last change",
    Reason.MAX_BUNDLES: "its namespace has as many bundles as it may",
    Reason.CYCLE_LIMIT: "enough is done in this cycle",
    Reason.HIT_COUNT: "it must be seen more often before anything is done",
    Reason.MIN_BUNDLES: "its namespace has as few bundles as it may",
    Reason.MERGED_TOO_LARGE: "both together would be split again",
    Reason.QUIET_HOURS: "it waits for the end of the quiet hours",
    Reason.CAPACITY: "a broker would exceed its limits (loadBalancerBrokerLimits)",
    Reason.TOPIC_SPREAD: "a broker has, or would have, too many partitions of one topic "
    "(loadBalancerTopicPartitionsPerBroker)",
    Reason.HEADROOM: "the others could not carry it if a broker died",
    Reason.BUDGET_BROKER: "as many moves of a broker as are allowed are under way",
    Reason.BUDGET_CLUSTER: "as many moves of the cluster as are allowed are under way",
    Reason.BUDGET_HOURLY_LOAD: "as much load was moved in this hour as is allowed",
    Reason.BUDGET_NAMESPACE: "as many moves of its namespace as are allowed are under way",
}


def reason_text(reason: str) -> str:
    """The text of a reason; the id in words if another version of the daemon sent it."""
    try:
        return _SENTENCES[Reason(reason)]
    except ValueError:
        return reason.replace("_", " ")


# Tables of plans: decisions, predicted result, skipped bundles.


_PLAN_TABLE_COLUMNS: Final = ("what", "load", "source", "destination", "why")
_COUNTS: Final = ("done", "waiting", "obsolete", "failed")
_PLAN_COLUMNS: Final = ("plan", "state", *_COUNTS, "proposed by", "approved by", "note")
_PLAN_FIELDS: Final = ("id", "state", *_COUNTS, "proposed_by", "by", "note")


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print the decisions, then the predicted result and what was skipped."""
    if plan["decisions"]:
        print_table("", _PLAN_TABLE_COLUMNS, map(_decision_cells, plan["decisions"]))
    print_table(f"plan {plan['id']}", ("", ""), _figures(plan))
    if plan["skipped_by_reason"]:
        counts = sorted(plan["skipped_by_reason"].items(), key=lambda item: (-item[1], item[0]))
        print_table("skipped", ("why", "count"), ((reason_text(why), n) for why, n in counts))
    for skip in plan.get("skipped", ()):
        echo(skip["sentence"])


def print_plans(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of approved plans."""
    # A leader of the previous release does not name the proposer.
    print_table("", _PLAN_COLUMNS, ([row.get(name, "") for name in _PLAN_FIELDS] for row in rows))


def _figures(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    from broker_ctl.core.model.load import throughput_text

    moved = throughput_text(plan["load_moved_bytes_per_s"])
    return [
        ("max over mean usage", _imbalance_change(plan, "usage_imbalance")),
        ("max over mean throughput", _imbalance_change(plan, "throughput_imbalance")),
        ("moves", str(plan["moves"])),
        ("load moved", f"{moved}, {plan['load_moved_ratio']:.2%} of the cluster's"),
        *(
            [("fullest broker on the way", order["text"])]
            if plan["moves"] and (order := plan.get("order"))
            else []
        ),
        ("held back", plan["held_back"].replace("_", " ")),
        *([("proposed by", by)] if (by := plan.get("proposed_by")) else []),
        *([("proposed because", why)] if (why := plan.get("proposal_reason")) else []),
        *([("digest", plan["digest"])] if "digest" in plan else []),
    ]


def _decision_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    from broker_ctl.core.model.load import throughput_text

    why = f"{row['reason'].replace('_', ' ')}: {row['detail']}"
    if row["kind"] != "transfer":
        subject = row.get("bundle") or f"{row['left']} and {row['right']}"
        return (
            f"{row['kind']} {subject}",
            "",
            row.get("owner", ""),
            row.get("destination", ""),
            why,
        )
    return (
        f"transfer {row['bundle']}",
        throughput_text(row["throughput_bytes_per_s"]),
        f"{row['source']} {_change(row, 'source_usage')}",
        f"{row['destination']} {_change(row, 'destination_usage')}",
        why,
    )


def _change(row: Mapping[str, Any], name: str) -> str:
    before, after = row[f"{name}_before_ratio"], row[f"{name}_after_ratio"]
    return f"{percent_text(before)} -> {percent_text(after)}"


def _imbalance_change(plan: Mapping[str, Any], name: str) -> str:
    from broker_ctl.core.cluster.imbalance import imbalance_text

    return f"{imbalance_text(plan[f'{name}_before'])} -> {imbalance_text(plan[f'{name}_after'])}"


# ``broker-ctl plan``: show the next balancing plan, approve it, follow it.


_PLAN: Final = "/control/v1/plan"
_PLANS: Final = "/control/v1/plans"
_PROPOSALS: Final = "/control/v1/proposals"
_OPEN: Final = ("approved", "carrying out")
# The value of --approve or --stop without a plan id.
_ANY: Final = ""
_EXAMPLES: Final = """\b
Examples:
  broker-ctl plan
  broker-ctl plan --verbose --output json
  broker-ctl plan --approve --wait
  broker-ctl plan --heal-policies --approve --wait
  broker-ctl plan --show 0123456789ab
  broker-ctl plan --propose 0123456789ab --yes --reason "before the sale"
  broker-ctl plan --proposals
  broker-ctl plan --approve 0123456789ab --yes --reason "before the sale"
  broker-ctl plan --from placement.json
  broker-ctl plan --from placement.json --approve --wait
  broker-ctl plan --progress
  broker-ctl plan --stop --reason "the sale begins early"
"""


@click.command(cls=VerbCommand, epilog=_EXAMPLES)
@click.option("--verbose", is_flag=True, help="Also show each skipped bundle with its reason.")
@click.option(
    "--show", metavar="PLAN", help="Show this plan, which another operator may have proposed."
)
@click.option(
    "--propose",
    is_flag=False,
    flag_value=_ANY,
    metavar="[PLAN]",
    help="Put this plan up for another role to approve within ten minutes; without an id, make a "
    "plan, show it and ask for confirmation.",
)
@click.option("--proposals", is_flag=True, help="Show the plans that wait for an approval.")
@click.option(
    "--approve",
    is_flag=False,
    flag_value=_ANY,
    metavar="[PLAN]",
    help="Approve this plan; without an id, make a plan, show it and ask for confirmation.",
)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Placement plan written by `broker-ctl pipeline recommend`.",
)
@click.option(
    "--heal-policies",
    "heals",
    is_flag=True,
    help="Plan only the moves of bundles off brokers that isolation policies do not allow.",
)
@click.option("--progress", is_flag=True, help="Show the progress of approved plans.")
@click.option(
    "--stop",
    is_flag=False,
    flag_value=_ANY,
    metavar="[PLAN]",
    help="Start no further decisions of this plan; without an id, of the plan in progress.",
)
@click.option("--wait", is_flag=True, help="With --approve: wait until the plan has ended.")
@reason_option
@change_options
@watch_option
@daemon_options
def command(
    target: Target,
    *,
    verbose: bool,
    show: str | None,
    propose: str | None,
    proposals: bool,
    approve: str | None,
    file: Path | None,
    heals: bool,
    progress: bool,
    stop: str | None,
    wait: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show the decisions of the next cycle and their predicted result; this changes nothing.

    An approved plan is carried out immediately, even during a pause and with dryRun; each decision
    is checked again against the cluster. It survives leader changes. A plan from a file is in force
    for 36 hours, during which strategy balance leaves its bundles in place.
    """
    chosen = {
        "--show": show,
        "--propose": propose,
        "--proposals": proposals or None,
        "--approve": approve,
        "--progress": progress or None,
        "--stop": stop,
    }
    _check_options(
        {name: value for name, value in chosen.items() if value is not None}, file, heals
    )
    query = {"heal_policies": "true"} if heals else {}
    make = partial(_fetch_plan, target, file, query)
    if progress:
        _show_progress(target)
    elif proposals:
        _show_proposals(target)
    elif show is not None:
        _show(target, target.run(lambda client: client.get(_path(show))))
    elif stop is not None:
        _stop(target, stop, reason, dry_run=dry_run, yes=yes)
    elif propose is not None:
        _propose(target, propose, make, reason, dry_run=dry_run, yes=yes)
    elif approve is not None:
        _approve(target, approve, make, reason, wait=wait, dry_run=dry_run, yes=yes)
    else:
        query |= {"verbose": "true"} if verbose else {}
        _show(target, _fetch_plan(target, file, query))


def _check_options(chosen: Mapping[str, str | bool], file: Path | None, heals: bool) -> None:
    """Refuse options that contradict each other."""
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(sorted(chosen))} exclude each other")
    makes = {"--from": file is not None, "--heal-policies": heals}
    for name in (name for name, is_given in makes.items() if is_given):
        if any(chosen.values()) or not set(chosen) <= {"--approve", "--propose"}:
            raise click.UsageError(f"{name} allows --approve or --propose without a plan id only")
    if all(makes.values()):
        raise click.UsageError("--from and --heal-policies exclude each other")


def _fetch_plan(target: Target, file: Path | None, query: Mapping[str, str]) -> Mapping[str, Any]:
    """The leader's next plan, or what can be carried out of the plan in a file."""
    if file is None:
        found: Mapping[str, Any] = target.run(lambda client: client.get(_PLAN, query))
        return found
    try:
        body = decode(file.read_bytes())
    except (OSError, CorruptRecord) as error:
        raise click.ClickException(f"{file}: {error}") from error
    if not isinstance(body, dict):
        raise click.ClickException(f"{file}: not a plan")
    reply = target.run(lambda client: client.request("POST", _PLANS, json=body))
    plan: Mapping[str, Any] = reply.json()
    return plan


def _show(target: Target, plan: Mapping[str, Any]) -> None:
    if target.is_json:
        echo_json(plan)
        return
    print_plan(plan)
    if plan["decisions"]:
        echo(f"broker-ctl plan --approve {plan['id']} carries it out")


def _show_progress(target: Target) -> None:
    rows = target.run(lambda client: client.get(_PLANS))
    if target.is_json:
        echo_json(rows)
    else:
        print_plans(rows)


def _show_proposals(target: Target) -> None:
    rows = target.run(lambda client: client.get(_PROPOSALS))
    if target.is_json:
        echo_json(rows)
        return
    for row in rows:
        print_plan(row)
    if not rows:
        echo("no plan waits for an approval")


def _seen(
    target: Target, plan_id: str, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The plan that is named, or a new one, after it was shown; None: it does nothing."""
    named = plan_id != _ANY
    plan = target.run(lambda client: client.get(_path(plan_id))) if named else make()
    if not target.is_json:
        print_plan(plan)
    if not plan["decisions"]:
        report_result(target, "nothing", "the plan is empty: nothing to do", plan=plan)
        return None
    return plan


def _propose(
    target: Target,
    plan_id: str,
    make: Callable[[], Mapping[str, Any]],
    reason: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    plan = _seen(target, plan_id, make)
    if plan is None:
        return
    change = VerbChange("POST", _path(plan["id"]), body=audit_fields(reason))
    if check_and_confirm(target, change, f"propose plan {plan['id']}", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        sentence = f"plan {row['id']} waits for an approval: broker-ctl plan --approve {row['id']}"
        report_result(target, "proposed", sentence, plan=row)


def _approve(
    target: Target,
    plan_id: str,
    make: Callable[[], Mapping[str, Any]],
    reason: str,
    *,
    wait: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    plan = _seen(target, plan_id, make)
    if plan is None:
        return
    plan_id = plan["id"]
    seen = {**audit_fields(reason), "digest": plan["digest"]}
    change = VerbChange("PUT", _path(plan_id), body=seen)
    if not check_and_confirm(target, change, f"carry out plan {plan_id}", dry_run=dry_run, yes=yes):
        return
    row = send(target, change).json()
    if wait:
        row = _wait_ended(target, plan_id)
    report_result(target, row["state"], _sentence_of_plan(row), plan=row)
    if row["failed"] or row["state"] == "stopped":
        raise SystemExit(1)


def _wait_ended(target: Target, plan_id: str) -> Mapping[str, Any]:
    return target.run(
        lambda client: poll_until(
            target,
            lambda: _plan_row(client, plan_id),
            _stage_of_plan,
            lambda row: row["state"] not in _OPEN,
        )
    )


async def _plan_row(client: Any, plan_id: str) -> Mapping[str, Any]:
    rows: list[Mapping[str, Any]] = await client.get(_PLANS)
    for row in rows:
        if row["id"] == plan_id:
            return row
    raise click.ClickException(f"plan {plan_id} is not known")


def _stop(target: Target, plan_id: str, reason: str, *, dry_run: bool, yes: bool) -> None:
    if plan_id == _ANY:
        rows = target.run(lambda client: client.get(_PLANS))
        ids = [row["id"] for row in rows if row["state"] in _OPEN]
        if not ids:
            report_result(target, "nothing", "no plan is in progress")
            return
        plan_id = ids[0]
    change = VerbChange("DELETE", _path(plan_id), body=audit_fields(reason))
    if check_and_confirm(target, change, f"stop plan {plan_id}", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, row["state"], _sentence_of_plan(row), plan=row)


def _path(plan_id: str) -> str:
    return f"{_PLANS}/{quote(plan_id, safe='')}"


def _stage_of_plan(row: Mapping[str, Any]) -> Stage:
    total = row["decisions"]
    return Stage(total - row["waiting"], total, _sentence_of_plan(row))


def _sentence_of_plan(row: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f"{row[fate]} {fate}" for fate in ("done", "waiting", "obsolete", "failed") if row[fate]
    )
    note = f"; {row['note']}" if row["note"] else ""
    return f"plan {row['id']} is {row['state']}: {counts or 'nothing'}{note}"
