"""``broker-ctl plan``: show the next balancing plan, approve it, follow it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.balancing.plan_table import print_plan, print_plans
from broker_ctl.cli.runtime.confirmation import (
    Change,
    audit_fields,
    change_options,
    check_and_confirm,
    reason_option,
    report_result,
    send,
)
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.watching import watch_option
from broker_ctl.codec import decode
from broker_ctl.errors import CorruptRecord

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


@click.command(short_help="Show, approve or stop a balancing plan.", epilog=_EXAMPLES)
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
    change = Change("POST", _path(plan["id"]), body=audit_fields(reason))
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
    change = Change("PUT", _path(plan_id), body=seen)
    if not check_and_confirm(target, change, f"carry out plan {plan_id}", dry_run=dry_run, yes=yes):
        return
    row = send(target, change).json()
    if wait:
        row = _wait_ended(target, plan_id)
    report_result(target, row["state"], _sentence(row), plan=row)
    if row["failed"] or row["state"] == "stopped":
        raise SystemExit(1)


def _wait_ended(target: Target, plan_id: str) -> Mapping[str, Any]:
    return target.run(
        lambda client: poll_until(
            target,
            lambda: _plan_row(client, plan_id),
            _stage,
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
    change = Change("DELETE", _path(plan_id), body=audit_fields(reason))
    if check_and_confirm(target, change, f"stop plan {plan_id}", dry_run=dry_run, yes=yes):
        row = send(target, change).json()
        report_result(target, row["state"], _sentence(row), plan=row)


def _path(plan_id: str) -> str:
    return f"{_PLANS}/{quote(plan_id, safe='')}"


def _stage(row: Mapping[str, Any]) -> Stage:
    total = row["decisions"]
    return Stage(total - row["waiting"], total, _sentence(row))


def _sentence(row: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f"{row[fate]} {fate}" for fate in ("done", "waiting", "obsolete", "failed") if row[fate]
    )
    note = f"; {row['note']}" if row["note"] else ""
    return f"plan {row['id']} is {row['state']}: {counts or 'nothing'}{note}"
