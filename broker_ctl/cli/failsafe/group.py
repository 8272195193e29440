"""``broker-ctl failsafe``: serving on while ZooKeeper is away, by promises of all members."""

from typing import Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo_json, print_facts
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

_FAILSAFE: Final = "/control/v1/failsafe"
_EXAMPLES: Final = """\b
Examples:
  broker-ctl failsafe status
  broker-ctl failsafe remove broker-4:8080 --dry-run
"""
_STATUS_EXAMPLES: Final = """\b
Examples:
  broker-ctl failsafe status
  broker-ctl failsafe status --url http://broker-2:8080 --output json
"""
_REMOVE_EXAMPLES: Final = """\b
Examples:
  broker-ctl failsafe remove broker-4:8080 --dry-run
  broker-ctl failsafe remove broker-4:8080 --yes
"""


@click.group(
    cls=VerbGroup,
    name="failsafe",
    short_help="Members that promise each other, while ZooKeeper is away.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Members of a cluster with ownershipAuthority=failsafe.

    While no broker reaches ZooKeeper, a broker serves on past its lease if all members promise to
    acquire nothing.
    """


@command.command(epilog=_STATUS_EXAMPLES)
@daemon_options
def status(target: Target) -> None:
    """Show the members by the broker that is asked, and whether it serves by their promises.

    A broker that is not admitted acquires nothing: some member has not read that it exists.
    """
    found = target.run(lambda client: client.get(_FAILSAFE))
    if target.is_json:
        echo_json(found)
    else:
        print_facts("", found)


@command.command(epilog=_REMOVE_EXAMPLES)
@click.argument("broker")
@change_options
@daemon_options
def remove(target: Target, *, broker: str, dry_run: bool, yes: bool) -> None:
    """Remove BROKER, which is gone, from the members; ask any other broker that is admitted.

    While a member is gone nobody can serve on without ZooKeeper, and new brokers acquire nothing.
    The leader removes it by itself after failsafeMemberTimeoutSeconds. A broker that is removed
    and still lives joins again.
    """
    change = Change("DELETE", f"{_FAILSAFE}/members/{quote(broker, safe='')}")
    if not send_dry_run(target, change)["was_member"]:
        report_result(target, "nothing", f"{broker} is not a member")
    elif confirm(target, f"remove {broker} from the members", dry_run=dry_run, yes=yes):
        send(target, change)
        report_result(target, "removed", f"{broker} is not a member any more")
