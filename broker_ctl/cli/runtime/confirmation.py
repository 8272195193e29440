"""What verbs that change something have in common: the daemon judges, then the operator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import echo_json
from broker_ctl.cli.runtime.target import Target

if TYPE_CHECKING:
    from broker_ctl.http_client import HttpReply

_DRY: Final = {"dry_run": "true"}

V = TypeVar("V", bound=Callable[..., None])


def act_options(verb: V) -> V:
    """Options of the verbs that change something."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
    return dry_run(yes(verb))


def cluster_option(verb: V) -> V:
    """Whose policies."""
    return click.option(
        "--cluster",
        help=(
            "Cluster name; must match the daemon's clusterName (the error shows the expected "
            "value).  [default: the daemon's clusterName]"
        ),
    )(verb)


def cluster_of(target: Target, said: str | None) -> str:
    """The cluster that an operator names, or else the daemon's own."""
    if said is not None:
        return said
    name: str = target.run(lambda client: client.get("/control/v1/status"))["cluster"]
    return name


def reason_option(verb: V) -> V:
    """Why something is ordered."""
    return click.option(
        "--reason", default="", metavar="TEXT", help="Reason, recorded for other operators."
    )(verb)


def said(reason: str) -> dict[str, str]:
    """Who orders something, and why; a daemon that asks for tokens takes the token's role."""
    import getpass

    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        who = ""
    return {"by": who, "reason": reason}


@dataclass(frozen=True, slots=True)
class Audit:
    """A request that changes something. A daemon judges each without doing it, see `judged`."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


def judged(target: Target, act: Audit) -> dict[str, Any]:
    """What it would be done to, by the daemon that would do it; nothing is done.

    Raises:
        HttpError: it would be refused, in the words of the refusal.
    """
    found: dict[str, Any] = target.run(
        lambda client: client.request(act.method, act.path, {**act.query, **_DRY}, json=act.body)
    ).json()
    return found


def done(target: Target, act: Audit) -> "HttpReply":
    """What the daemon answers that did it.

    Raises:
        HttpError: it was refused.
    """
    return target.run(lambda client: client.request(act.method, act.path, act.query, json=act.body))


def is_judged_and_wanted(
    target: Target, act: Audit, sentence: str, *, dry_run: bool, yes: bool
) -> bool:
    """Whether to go on with what the daemon would do; what it would refuse is an error.

    Raises:
        HttpError: it would be refused.
    """
    found = judged(target, act)
    return is_wanted(target, sentence, dry_run=dry_run, yes=yes, judged=found)


def is_wanted(target: Target, sentence: str, *, dry_run: bool, yes: bool, **more: Any) -> bool:
    """Whether to go on; the question is asked on stderr, which no program reads.

    ``more`` is what a program is told besides where nothing is to be done.
    """
    if dry_run:
        say(target, "dry_run", f"would {sentence}", **more)
        return False
    if not yes:
        click.confirm(f"{sentence[0].upper()}{sentence[1:]}?", abort=True, err=True)
    return True


def say(target: Target, result: str, sentence: str, **more: Any) -> None:
    """Tell what was done, in a sentence or as JSON."""
    if target.is_json:
        echo_json({"result": result, "sentence": sentence, **more})
    else:
        click.echo(sentence)
