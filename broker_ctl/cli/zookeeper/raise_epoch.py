"""``broker-ctl zookeeper raise-epoch``: raise the epoch of a restored ZooKeeper.

Transaction ids begin with the epoch of the leader that gave them out, and tokens are transaction
ids. A server takes the epoch from two files of its data directory, which it reads at its start.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo_json
from broker_ctl.cli.runtime.output_files import replace_file

_DATA: Final = "version-2"
# In this order: a server refuses to start if acceptedEpoch is below currentEpoch.
_FILES: Final = ("acceptedEpoch", "currentEpoch")
# Room for the epochs of leaders that were elected after a daemon last logged a zxid.
_MARGIN: Final = 100
_EPOCH_BITS: Final = 32
_MAX_EPOCH: Final = (1 << 31) - 1
_NUMBERED: Final = re.compile(r"(?:log|snapshot)\.([0-9a-f]{1,16})(?:\.\w+)?")
_PROCESSES: Final = Path("/proc")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005 --dry-run
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --seen 0x1a00000005
  broker-ctl zookeeper raise-epoch /var/lib/zookeeper --epoch 126 --output json
"""


@dataclass(frozen=True, slots=True)
class Epochs:
    """Epochs in a data directory.

    Attributes:
        written: in the two files, by name.
        newest: of the newest transaction.
    """

    written: dict[str, int]
    newest: int


def _zxid(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", text.lower()):
        raise click.BadParameter(f"{text!r} is not a transaction id such as 0x1a00000005")
    return int(text, 16)


@click.command("raise-epoch", short_help="Raise the epoch of a restored copy.", epilog=_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--seen",
    metavar="ZXID",
    callback=_zxid,
    help=f"Highest transaction id seen anywhere; the new epoch is its epoch plus {_MARGIN}.",
)
@click.option("--epoch", type=click.IntRange(1, _MAX_EPOCH), help="New epoch.")
@click.option("--dry-run", is_flag=True, help="Only check, and show what would be written.")
@output_option()
def command(
    directory: Path, seen: int | None, epoch: int | None, *, dry_run: bool, output: str
) -> None:
    """Raise the epoch in DIRECTORY, the dataDir of a ZooKeeper server that is stopped.

    For servers that are restored from a copy. Run it on each server with the same number, after
    the copy is in place and before any server is started: all transaction ids, and so the fencing
    tokens of bundles, are then greater than those issued after the copy was made.
    """
    if (seen is None) == (epoch is None):
        raise click.UsageError("either --seen or --epoch is required")
    if epoch is None:
        assert seen is not None
        epoch = (seen >> _EPOCH_BITS) + _MARGIN
    data = _data_of(directory)
    _require_stopped(data)
    found = _read(data)
    highest = max(found.newest, *found.written.values())
    if not highest < epoch <= _MAX_EPOCH:
        raise click.ClickException(
            f"{data}: epoch {epoch} must be above {highest}, the epoch of the copy, and at most"
            f" {_MAX_EPOCH}"
        )
    if not dry_run:
        for name in _FILES:
            replace_file(data / name, f"{epoch}\n".encode())
    _show(data, found, epoch, is_dry_run=dry_run, output=output)


def _show(data: Path, found: Epochs, epoch: int, *, is_dry_run: bool, output: str) -> None:
    if output == "json":
        echo_json(
            {"directory": str(data), "was": found.written, "epoch": epoch, "dry_run": is_dry_run}
        )
        return
    verb = "would be raised" if is_dry_run else "is raised"
    for name, was in found.written.items():
        click.echo(f"{data / name} {verb} from {was} to {epoch}")
    if not is_dry_run:
        click.echo(f"next: the same on the other servers, with --epoch {epoch}; then start them")


def _data_of(directory: Path) -> Path:
    data = directory if directory.name == _DATA else directory / _DATA
    if not data.is_dir():
        raise click.ClickException(
            f"{directory} holds no {_DATA}: the dataDir of a ZooKeeper server is expected"
        )
    return data.resolve()


def _read(data: Path) -> Epochs:
    written = {name: _number(data / name) for name in _FILES}
    numbered = [_NUMBERED.fullmatch(entry.name) for entry in data.iterdir()]
    zxids = [int(match[1], 16) for match in numbered if match is not None]
    if not zxids:
        raise click.ClickException(
            f"{data} holds neither a snapshot nor a log: nothing is restored"
        )
    return Epochs(written, max(zxids) >> _EPOCH_BITS)


def _number(file: Path) -> int:
    try:
        text = file.read_text(encoding="ascii").strip()
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise click.ClickException(f"{file}: {text!r:.40} is not an epoch")
    except FileNotFoundError:
        raise click.ClickException(
            f"{file} is missing: a server without an ensemble has no epoch that could be raised"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    return int(text)


# A running server does not read these files again, and would overwrite them with its own epoch.


def _require_stopped(data: Path) -> None:
    for process in sorted(_PROCESSES.glob("[0-9]*")):
        if any(_is_below(one, data) for one in _used_by(process)):
            raise click.ClickException(
                f"process {process.name} serves from {data}: stop the ZooKeeper server first"
            )


def _used_by(process: Path) -> Iterator[Path]:
    """The open files of a process, and its dataDir if it is a ZooKeeper server; if permitted."""
    try:
        for descriptor in (process / "fd").iterdir():
            yield descriptor.readlink()
    except OSError:
        pass
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        if not any(b"org.apache.zookeeper" in word for word in words):
            return
        base = (process / "cwd").readlink()
        for word in words:
            if word.endswith(b".cfg"):
                text = (base / os.fsdecode(word)).read_text(encoding="utf-8", errors="replace")
                for line in text.splitlines():
                    key, _, value = line.partition("=")
                    if key.strip() == "dataDir":
                        yield (base / value.strip() / _DATA).resolve()
    except OSError:
        pass


def _is_below(path: Path, data: Path) -> bool:
    return path == data or data in path.parents
