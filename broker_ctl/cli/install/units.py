"""``broker-ctl units``: the systemd unit, with the paths of this installation."""

import re
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Final, NamedTuple

import click

from broker_ctl.cli.install.package_files import FILE_MODE, read_text, write_file
from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl units install --dry-run
  broker-ctl units install
  broker-ctl units install --allow-network 10.1.0.0/16
  broker-ctl units install --root /srv/image --program /opt/broker-ctl/bin/broker-ctl
"""
# May name files with secrets, so others do not read it; the group of the service does.
_CONFIGURATION_MODE: Final = 0o640
_CONFIGURATION: Final = Path("/etc/broker-ctl/broker.conf")
# The unit shows these to the service.
_SHOWN: Final = ("/usr", "/etc", "/opt", "/srv", "/bin", "/sbin")
_ABSOLUTE: Final = re.compile(r"/[^\s%\"'\\]+")


class _UnitFile(NamedTuple):
    path: Path
    text: str
    mode: int
    #: Whether an existing one stays: it is the operator's.
    is_kept: bool = False


@click.group(cls=VerbGroup, short_help="Install the systemd unit.", epilog=_EXAMPLES)
def command() -> None:
    """Install the systemd unit that runs the daemon on this machine."""


def _default_program() -> str:
    return str(Path(sys.prefix) / "bin" / "broker-ctl")


def _absolute(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _ABSOLUTE.fullmatch(value):
        raise click.BadParameter(
            f"{value!r}: not an absolute path without blanks, quotes, % and backslashes"
        )
    return value


def _networks_of(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(value)) for value in values)
    except ValueError as error:
        raise click.BadParameter(f"{error}; a network is 10.1.0.0/16 or fd00::/8") from error


@command.command(epilog=_EXAMPLES)
@click.option(
    "--program",
    metavar="PATH",
    default=_default_program,
    callback=_absolute,
    help="The program that the unit starts.  [default: that of this environment]",
)
@click.option(
    "--config",
    "configuration",
    metavar="PATH",
    default=str(_CONFIGURATION),
    callback=_absolute,
    show_default=True,
    help="The daemon's broker.conf; written, with the settings to begin with, unless it exists.",
)
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Write below this directory, as for an image or a package.",
)
@click.option(
    "--unit-directory",
    metavar="PATH",
    default="/etc/systemd/system",
    callback=_absolute,
    show_default=True,
    help="Directory of the unit; that of packages is /usr/lib/systemd/system.",
)
@click.option(
    "--sysusers-directory",
    metavar="PATH",
    default="/etc/sysusers.d",
    callback=_absolute,
    show_default=True,
    help="Directory of the file that creates the user; that of packages is /usr/lib/sysusers.d.",
)
@click.option(
    "--allow-network",
    "networks",
    metavar="CIDR",
    multiple=True,
    callback=_networks_of,
    help="The service reaches, and is reached by, this machine and these networks only: those of "
    "ZooKeeper, brokers, clients, scrapers and name servers. Repeatable.",
)
@click.option("--force", is_flag=True, help="Replace an existing unit that differs.")
@click.option("--dry-run", is_flag=True, help="Print the files; write nothing.")
@output_option()
def install(
    *,
    program: str,
    configuration: str,
    root: Path,
    unit_directory: str,
    sysusers_directory: str,
    networks: tuple[str, ...],
    force: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Write the unit, the file that creates its user, and a broker.conf if there is none.

    Nothing is started: the last lines say what to do next. An existing broker.conf is kept.
    """
    unit = _unit_text(program, configuration, networks)
    files = [
        _UnitFile(Path(unit_directory, "broker-ctl.service"), unit, FILE_MODE),
        _UnitFile(
            Path(sysusers_directory, "broker-ctl.conf"),
            read_text("systemd/broker-ctl.sysusers"),
            FILE_MODE,
        ),
        _UnitFile(
            Path(configuration),
            read_text("broker-minimal.conf"),
            _CONFIGURATION_MODE,
            is_kept=True,
        ),
    ]
    results = [_result_of(file, root, is_forced=force) for file in files]
    if not dry_run:
        for file, result in zip(files, results, strict=True):
            if result == "written":
                write_file(_below(root, file.path), file.text, file.mode)
    _report(files, results, root, dry_run=dry_run, output=output)


def _unit_text(program: str, configuration: str, networks: tuple[str, ...]) -> str:
    """The unit with these paths, and open to these networks only if there are any."""
    start = f"ExecStart={program} run -c {configuration}"
    # The comment at the top is for those who install it by hand.
    _, _, body = read_text("systemd/broker-ctl.service").partition("\n[Unit]\n")
    text = "[Unit]\n" + re.sub(r"^ExecStart=.*$", lambda _: start, body, flags=re.MULTILINE)
    added = []
    if hidden := _hidden(program, configuration):
        added.append(f"BindReadOnlyPaths={' '.join(hidden)}")
    if networks:
        added += ["IPAddressDeny=any", f"IPAddressAllow=localhost {' '.join(networks)}"]
    if not added:
        return text
    lines = "\n".join(added)
    return text.replace("\n[Install]\n", f"\n{lines}\n\n[Install]\n")


def _hidden(program: str, configuration: str) -> list[str]:
    """What the service needs, and does not see in a root of its own: its program, its settings."""
    needed = [Path(program).parents[1], Path(configuration).parent]
    return [str(path) for path in needed if not any(map(path.is_relative_to, _SHOWN))]


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _result_of(file: _UnitFile, root: Path, *, is_forced: bool) -> str:
    """Whether it is written, there already, or kept.

    Raises:
        ClickException: another file is there, and must not be replaced.
    """
    path = _below(root, file.path)
    try:
        there = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "written"
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    if file.is_kept:
        return "kept"
    if there == file.text:
        return "unchanged"
    if not is_forced:
        raise click.ClickException(f"{path} exists and differs; --force replaces it")
    return "written"


def _report(
    files: list[_UnitFile], results: list[str], root: Path, *, dry_run: bool, output: str
) -> None:
    from broker_ctl.cli.runtime.output import echo, echo_json

    if output == "json":
        rows = [
            {"path": str(_below(root, file.path)), "mode": f"{file.mode:04o}", "result": result}
            | ({"text": file.text} if dry_run else {})
            for file, result in zip(files, results, strict=True)
        ]
        echo_json({"result": "dry_run" if dry_run else "installed", "files": rows})
        return
    for file, result in zip(files, results, strict=True):
        path = _below(root, file.path)
        if dry_run:
            echo(f"# {path} (mode {file.mode:04o}; would be {result})\n{file.text}")
        else:
            echo(f"{result} {path}")
    if not dry_run and root == Path("/"):
        configuration = files[-1].path
        echo(
            f"next: systemd-sysusers && chown root:broker-ctl {configuration}, edit it, "
            f"broker-ctl config check {configuration}, then "
            "systemctl daemon-reload && systemctl enable --now broker-ctl"
        )
