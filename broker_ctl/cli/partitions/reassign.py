"""``broker-ctl partitions reassign``: plan, start, follow and cancel reassignments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from broker_ctl.cli.partitions.params import (
    AT_ONCE,
    PARTITIONS,
    REASSIGNMENTS,
    THROTTLE,
    BrokerIds,
    PartitionName,
    Rate,
    count_text,
    partition_name,
    preview_moves,
    topic_path,
)
from broker_ctl.cli.partitions.reassign_progress import print_reassignments, wait_reassigned
from broker_ctl.cli.partitions.reassign_throttle import throttle as throttle_verb
from broker_ctl.cli.partitions.reassign_throttle import throttle_text
from broker_ctl.cli.runtime.confirmation import (
    Change,
    change_options,
    confirm,
    report_result,
    send,
    send_dry_run,
)
from broker_ctl.cli.runtime.output import echo, echo_json
from broker_ctl.cli.runtime.target import Target, daemon_options
from broker_ctl.cli.runtime.verb_help import VerbGroup

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
    "--brokers", type=BrokerIds(), required=True, help="Broker ids of the target brokers."
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
    from broker_ctl.cli.runtime.output_files import atomic_output, check_new
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


command.add_command(throttle_verb, "throttle")


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
        found = send_dry_run(target, Change(method, REASSIGNMENTS, body=body))
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
            send(target, Change(method, REASSIGNMENTS, body=body))
        except HttpError as error:
            if not count:
                raise
            # The cluster may have changed between two requests.
            text = f"{count} of {len(partitions)} partitions were done; then: {error}"
            raise click.ClickException(text) from error
        count += len(body["partitions"])


def _bodies(partitions: Sequence[Any], others: Mapping[str, Any]) -> list[dict[str, Any]]:
    from broker_ctl.core.model.batches import batched

    parts = list(batched(partitions, AT_ONCE)) or [[]]
    return [{"partitions": part, **others} for part in parts]
