"""Commands that change something: the daemon checks the request, then the operator confirms it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.target import Target
from broker_ctl.cli.runtime.watching import refuse_acts
from broker_ctl.core.model.printable import escape

if TYPE_CHECKING:
    from broker_ctl.http_client import HttpReply

_DRY_RUN: Final = {"dry_run": "true"}

V = TypeVar("V", bound=Callable[..., None])


def change_options(verb: V) -> V:
    """Add --dry-run and --yes."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
    return dry_run(yes(verb))


def cluster_option(verb: V) -> V:
    """Add --cluster; see `cluster_of`."""
    return click.option(
        "--cluster",
        help=(
            "Cluster name; must match the daemon's clusterName (the error shows the expected "
            "value).  [default: the daemon's clusterName]"
        ),
    )(verb)


def cluster_of(target: Target, given: str | None) -> str:
    """The value of --cluster, or the name of the daemon's own cluster."""
    if given is not None:
        return given
    name: str = target.run(lambda client: client.get("/control/v1/status"))["cluster"]
    return name


def reason_option(verb: V) -> V:
    """Add --reason; see `audit_fields`."""
    return click.option(
        "--reason", default="", metavar="TEXT", help="Reason, recorded for other operators."
    )(verb)


def audit_fields(reason: str) -> dict[str, str]:
    """The operator and the reason; a daemon with tokens records the token's role instead."""
    import getpass

    try:
        operator = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id that has no name.
        operator = ""
    return {"by": operator, "reason": reason}


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes something."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


def send_dry_run(target: Target, change: Change) -> dict[str, Any]:
    """Have the daemon check a change, and return what the change would affect.

    Raises:
        HttpError: the daemon would refuse it; the message is that of the refusal.
    """
    refuse_acts()
    found: dict[str, Any] = send(target, replace(change, query={**change.query, **_DRY_RUN})).json()
    return found


def send(target: Target, change: Change) -> "HttpReply":
    """Make a change.

    Raises:
        HttpError: the daemon refused it.
    """
    return target.run(
        lambda client: client.request(change.method, change.path, change.query, json=change.body)
    )


def check_and_confirm(
    target: Target, change: Change, sentence: str, *, dry_run: bool, yes: bool
) -> bool:
    """Check a change with `send_dry_run`, then `confirm` it.

    Raises:
        HttpError: the daemon would refuse it.
    """
    found = send_dry_run(target, change)
    return confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found)


def confirm(target: Target, sentence: str, *, dry_run: bool, yes: bool, **fields: Any) -> bool:
    """Whether to make the change; the prompt is on stderr, so that stdout stays JSON.

    ``fields`` are further JSON fields of the result of a dry run.
    """
    refuse_acts()
    if dry_run:
        report_result(target, "dry_run", f"would {sentence}", **fields)
        return False
    if not yes:
        question = escape(f"{sentence[0].upper()}{sentence[1:]}?")
        click.confirm(question, abort=True, err=True)
    return True


def report_result(target: Target, result: str, sentence: str, **fields: Any) -> None:
    """Print the result: the sentence, or all of it as JSON."""
    if target.is_json:
        echo_json({"result": result, "sentence": sentence, **fields})
    else:
        echo(sentence)
