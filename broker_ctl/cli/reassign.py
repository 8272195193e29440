"""``broker-ctl partitions reassign``: new replica lists, their progress, their throttle."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.partition_arguments import (
    AT_ONCE,
    PARTITIONS,
    REASSIGNMENTS,
    THROTTLE,
    BrokerIdList,
    PartitionName,
    Rate,
    count_text,
    ids_text,
    partition_name,
    preview_moves,
    topic_path,
)
from broker_ctl.cli.runtime.output import duration_text, echo, echo_json, print_table
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verbs import (
    VerbChange,
    VerbCommand,
    VerbGroup,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.core.model.load import throughput_text

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient

# Progress of reassignments.


_COLUMNS: Final = ("partition", "target", "in sync", "not in sync yet")


class ReassignPace:
    """Estimates the remaining time from the pace so far."""

    def __init__(self, total: int, began_s: float) -> None:
        self._total = total
        self._began_s = began_s

    def eta_s(self, left: int, now_s: float) -> float | None:
        """The remaining time; None until the first partition is done."""
        moved = self._total - left
        return left * (now_s - self._began_s) / moved if moved > 0 else None

    def stage(self, left: int, missing: int, now_s: float) -> Stage:
        """The progress to show."""
        # More reassignments may have been started meanwhile.
        moved = max(0, self._total - left)
        behind = f"{count_text(missing, 'replica')} not in sync yet"
        eta = duration_text(self.eta_s(left, now_s))
        words = f"{count_text(left, 'partition')} left, {behind}, ETA {eta}"
        return Stage(moved, self._total, words)


def print_reassignments(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table of reassignments, and their throttle."""
    rows = list(rows)
    # A daemon of the release before has no throttle.
    rate = rows[0].get(THROTTLE) if rows else None
    print_table(
        "" if rate is None else f"throttled to {throughput_text(rate)} for each broker",
        _COLUMNS,
        (
            (partition_name(row), *(ids_text(row[name]) for name in ("replicas", "isr", "missing")))
            for row in rows
        ),
    )


def wait_reassigned(target: Target, partitions: Sequence[Mapping[str, Any]] | None) -> None:
    """Show the progress until these partitions are reassigned; None: all."""
    import time

    chosen = None if partitions is None else {partition_name(row) for row in partitions}

    async def follow(client: "DaemonClient") -> None:
        pace = ReassignPace(len((await ask(client))["rows"]), time.monotonic())
        if chosen is not None:
            pace = ReassignPace(len(chosen), time.monotonic())

        def stage_of(answer: Mapping[str, Any]) -> Stage:
            rows = answer["rows"]
            missing = sum(len(row["missing"]) for row in rows)
            return pace.stage(len(rows), missing, time.monotonic())

        await poll_until(target, lambda: ask(client), stage_of, lambda answer: not answer["rows"])

    async def ask(client: "DaemonClient") -> dict[str, Any]:
        rows = await client.get(REASSIGNMENTS)
        return {"rows": [row for row in rows if chosen is None or partition_name(row) in chosen]}

    target.run(follow)


# ``broker-ctl partitions reassign throttle``: the rate at which new replicas are copied.


_REASSIGN_THROTTLE_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions reassign throttle 100MiB
  broker-ctl partitions reassign throttle --remove
"""


@click.command(cls=VerbCommand, epilog=_REASSIGN_THROTTLE_EXAMPLES)
@click.argument("rate", type=Rate(), required=False)
@click.option("--remove", is_flag=True, help="Copy new replicas without a limit.")
@change_options
@daemon_options
def throttle(target: Target, *, rate: int | None, remove: bool, dry_run: bool, yes: bool) -> None:
    """Change the throttle of the reassignments in progress.

    RATE is in bytes per second, such as 50MiB. Each broker sends no more than that to new replicas,
    and fetches no more for its own. The throttle goes with the last reassignment.
    """
    if (rate is None) is not remove:
        raise click.UsageError("either RATE or --remove is required")
    change = VerbChange("POST", f"{REASSIGNMENTS}/throttle", body={THROTTLE: rate})
    result = send_dry_run(target, change)
    if confirm(target, f"copy {_change_text(result)}", dry_run=dry_run, yes=yes, **result):
        result = send(target, change).json()
        report_result(target, "throttled", f"copying {_change_text(result)}", **result)


def throttle_text(rate: int | None) -> str:
    """How fast new replicas are copied."""
    from broker_ctl.core.model.load import throughput_text

    return "" if rate is None else f" at no more than {throughput_text(rate)} for each broker"


def _change_text(result: Mapping[str, Any]) -> str:
    before, after = (result[name][THROTTLE] for name in ("before", "after"))
    moving = count_text(result["reassigning"], "partition")
    was = throttle_text(before) or " without a limit"
    return f"new replicas of {moving}{throttle_text(after) or ' without a limit'}; before:{was}"


# ``broker-ctl partitions reassign``: plan, start, follow and cancel reassignments.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl partitions reassign plan orders audit --brokers 2,3,4 --out moves.json
  broker-ctl partitions reassign start --from moves.json --dry-run
  broker-ctl partitions reassign start --from moves.json --throttle 50MiB --wait
  broker-ctl partitions reassign throttle 100MiB
  broker-ctl partitions reassign status --wait
  broker-ctl partitions reassign cancel orders-0 orders-7
  broker-ctl partitions reassign cancel --all
"""
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024
# Partitions that an error names.
_MOST_NAMED: Final = 5
_NO_OTHERS: Final[Mapping[str, Any]] = {}


@click.group(cls=VerbGroup, short_help="Move replicas to other brokers.", epilog=_EXAMPLES)
def command() -> None:
    """Reassign replicas to other brokers: plan, start, status, throttle, cancel.

    Partitions stay available: new replicas catch up before old ones are removed.
    """


@command.command(epilog=_EXAMPLES)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--brokers", type=BrokerIdList(), required=True, help="Broker ids of the target brokers."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file for `reassign start`, in the format of Kafka's tools.",
)
@click.option("--force", is_flag=True, help="Replace an existing file of --out.")
@daemon_options
def plan(
    target: Target, *, topics: tuple[str, ...], brokers: list[int], out: Path | None, force: bool
) -> None:
    """Plan an even assignment of each TOPIC to --brokers with few moves.

    Once all brokers have a rack (brokerRack), each partition is planned on as many racks as these
    brokers have, which repairs what `partitions list --rack-violations` shows. This changes
    nothing.
    """
    from broker_ctl.cli.runtime.output import atomic_output, check_new
    from broker_ctl.codec import encode_pretty

    if out is not None:
        check_new(out, "--out", is_forced=force)
    body = {"topics": list(topics), "brokers": brokers}
    path = f"{PARTITIONS}/plan"
    found = target.run(lambda client: client.request("POST", path, json=body)).json()
    if out is not None:
        with atomic_output(out) as beside:
            beside.write_bytes(encode_pretty(found))
    if target.is_json:
        echo_json(found)
        return
    if not found["partitions"]:
        echo("nothing would change")
        return
    preview_moves(found["partitions"])
    if out is not None:
        echo(f"broker-ctl partitions reassign start --from {out} carries it out")


@command.command(epilog=_EXAMPLES)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Reassignment file of `reassign plan` or of Kafka's tools.",
)
@click.option(
    "--throttle",
    type=Rate(),
    help="Bytes per second that each broker may send to new replicas, and fetch for its own,"
    " such as 50MiB; for all reassignments in progress, until the last one ends.",
)
@click.option("--wait", is_flag=True, help="Wait until all partitions are reassigned.")
@change_options
@daemon_options
def start(
    target: Target, *, file: Path, throttle: int | None, wait: bool, dry_run: bool, yes: bool
) -> None:
    """Start the reassignments of a file; one already in progress gets a new target.

    With --throttle, replicas that are already in sync are not held back.
    """
    targets = _read_targets(file)
    limit = {} if throttle is None else {THROTTLE: throttle}
    rows = _check_all(target, "PUT", targets, limit)
    if throttle is None and all(row["before"] == row["replicas"] for row in rows):
        report_result(
            target, "nothing", "the partitions already have these replicas", partitions=rows
        )
        return
    if not target.is_json:
        preview_moves(rows)
    sentence = f"move {count_text(len(rows), 'partition')}{throttle_text(throttle)}"
    if not confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        return
    _carry_out(target, "PUT", targets, limit)
    if wait:
        wait_reassigned(target, rows)
        _check_targets(target, targets)
        report_result(target, "moved", f"moved {count_text(len(rows), 'partition')}")
    else:
        begun = f"moving {count_text(len(rows), 'partition')}"
        report_result(
            target, "moving", f"{begun}; broker-ctl partitions reassign status shows the progress"
        )


@command.command(epilog=_EXAMPLES)
@click.option("--wait", is_flag=True, help="Wait until no reassignment is in progress.")
@daemon_options
def status(target: Target, *, wait: bool) -> None:
    """Show the reassignments in progress and the replicas that are not yet in sync."""
    if wait:
        wait_reassigned(target, None)
        report_result(target, "moved", "no reassignment is in progress")
        return
    rows = target.run(lambda client: client.get(REASSIGNMENTS))
    if target.is_json:
        echo_json(rows)
    else:
        print_reassignments(rows)


@command.command(epilog=_EXAMPLES)
@click.argument("partitions", nargs=-1, type=PartitionName(), metavar="[TOPIC-PARTITION]...")
@click.option("--all", "is_all", is_flag=True, help="All reassignments in progress.")
@change_options
@daemon_options
def cancel(
    target: Target,
    *,
    partitions: tuple[dict[str, Any], ...],
    is_all: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Cancel reassignments: the partitions return to their previous replicas."""
    if bool(partitions) == is_all:
        raise click.UsageError("either TOPIC-PARTITION or --all is required")
    # --all sends no names: a partition whose reassignment has ended by then would be an error.
    rows = _check_all(target, "DELETE", partitions)
    if not rows:
        report_result(target, "nothing", "no reassignment is in progress")
        return
    if not target.is_json:
        preview_moves(rows)
    sentence = f"cancel the reassignment of {count_text(len(rows), 'partition')}"
    if confirm(target, sentence, dry_run=dry_run, yes=yes, partitions=rows):
        _carry_out(target, "DELETE", partitions)
        report_result(
            target,
            "cancelled",
            f"cancelling the reassignment of {count_text(len(rows), 'partition')}",
        )


command.add_command(throttle, "throttle")


def _read_targets(file: Path) -> list[dict[str, Any]]:
    """Read a reassignment file; the daemon checks what it contains.

    Raises:
        BadParameter: the file is not a reassignment file.
    """
    from broker_ctl.codec import decode_object
    from broker_ctl.errors import CorruptRecord

    try:
        with file.open("rb") as opened:
            rows = decode_object(opened.read(_MAX_FILE_BYTES)).get("partitions")
        if not isinstance(rows, list) or not rows:
            raise CorruptRecord("it names no partitions")
        names = ("topic", "partition", "replicas")
        return [{name: row[name] for name in names} for row in rows]
    except OSError as error:
        reason = error.strerror or str(error)
    except CorruptRecord as error:
        reason = str(error)
    except (KeyError, TypeError):
        reason = 'each of partitions must be {"topic": NAME, "partition": N, "replicas": [ID, ...]}'
    raise click.BadParameter(f"{file}: {reason}", param_hint="'--from'")


def _check_targets(target: Target, targets: list[dict[str, Any]]) -> None:
    """Check that the reassignments that ended have reached their targets.

    Raises:
        ClickException: another request has changed or cancelled a reassignment.
    """
    wanted = {partition_name(row): row["replicas"] for row in targets}

    async def ask(client: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for topic in sorted({row["topic"] for row in targets}):
            rows += (await client.get(topic_path(topic)))["partitions"]
        return rows

    elsewhere = [
        partition_name(row)
        for row in target.run(ask)
        if row["replicas"] != wanted.get(partition_name(row), row["replicas"])
    ]
    if elsewhere:
        text = ", ".join(elsewhere[:_MOST_NAMED])
        count = count_text(len(elsewhere), "partition")
        raise click.ClickException(f"another request has reassigned {count}, such as {text}")


def _check_all(
    target: Target, method: str, partitions: Sequence[Any], others: Mapping[str, Any] = _NO_OTHERS
) -> list[dict[str, Any]]:
    """Have all requests checked before the first of them is sent."""
    rows: list[dict[str, Any]] = []
    for body in _bodies(partitions, others):
        found = send_dry_run(target, VerbChange(method, REASSIGNMENTS, body=body))
        if THROTTLE in others and THROTTLE not in found:
            raise click.ClickException(
                "the controller is of a release without a throttle, and would move without one"
            )
        rows += found["partitions"]
    return rows


def _carry_out(
    target: Target, method: str, partitions: Sequence[Any], others: Mapping[str, Any] = _NO_OTHERS
) -> None:
    from broker_ctl.errors import HttpError

    count = 0
    for body in _bodies(partitions, others):
        try:
            send(target, VerbChange(method, REASSIGNMENTS, body=body))
        except HttpError as error:
            if not count:
                raise
            # The cluster may have changed between two requests.
            text = f"{count} of {len(partitions)} partitions were done; then: {error}"
            raise click.ClickException(text) from error
        count += len(body["partitions"])


def _bodies(partitions: Sequence[Any], others: Mapping[str, Any]) -> list[dict[str, Any]]:
    from broker_ctl.core.model.counting import batched

    parts = list(batched(partitions, AT_ONCE)) or [[]]
    return [{"partitions": part, **others} for part in parts]
