"""``broker-ctl units``, ``completion``, ``man-pages``, ``dashboards``: for installations."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from ipaddress import ip_network
from pathlib import Path
from typing import Final, NamedTuple

import click

from broker_ctl.cli.runtime.output import echo, echo_json, output_option
from broker_ctl.cli.runtime.verbs import VerbGroup

# ``broker-ctl completion``: the script that completes verbs, options and names in a shell.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl completion bash > /etc/bash_completion.d/broker-ctl
  broker-ctl completion zsh > ~/.zfunc/_broker-ctl
  broker-ctl completion fish > ~/.config/fish/completions/broker-ctl.fish
"""
# Ids of brokers have colons, at which bash would part them.
_BASH_WORDS: Final = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n"


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script with which a shell completes verbs, options and names.

    Names of brokers, tenants, namespaces and bundles come from the daemon that the command would
    ask (--url, BROKER_CTL_URL), within a second; it never asks for a token.
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    found = get_completion_class(shell)
    assert found is not None, "the choice lists those of click"
    source = found(root.command, {}, "broker-ctl", "_BROKER_CTL_COMPLETE").source()
    click.echo(f"{_BASH_WORDS}{source}" if shell == "bash" else source)


# The files below ``files/``; a checkout has links there to ``deploy/`` and ``config/``.


_FILES: Final = files("broker_ctl.cli") / "files"
FILE_MODE: Final = 0o644


def read_text(name: str) -> str:
    """The text of one of them, such as ``systemd/broker-ctl.service``."""
    return (_FILES / name).read_text(encoding="utf-8")


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a whole file, with the directories that it needs; an existing one is replaced.

    Raises:
        ClickException: it cannot be written.
    """
    from broker_ctl.cli.runtime.output import atomic_output, create_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{path.parent}: {error.strerror or error}") from error
    with atomic_output(path) as beside:
        create_file(beside, text.encode(), mode)


# ``broker-ctl dashboards``: alerts of Prometheus and the dashboard of Grafana.


_DASHBOARDS_EXAMPLES: Final = """\b
Examples:
  broker-ctl dashboards export monitoring
  broker-ctl dashboards export /etc/prometheus --force
  broker-ctl dashboards export monitoring --runbooks https://docs.example.com/runbooks.html
"""
_NAMES: Final = ("prometheus/alerts.yml", "prometheus/prometheus.yml", "grafana/broker-ctl.json")

_RUNBOOKS: Final = 'runbook_url: "docs/how-to/runbooks.md#'
# Nothing that would end the text in the file or in a page.
_URL: Final = re.compile(r"https?://[A-Za-z0-9.:/_~%\[\]-]{1,300}")


def _url(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and _URL.fullmatch(value) is None:
        raise click.BadParameter(f"{value[:80]!r} is not an address without query and fragment")
    return value


@click.group(
    cls=VerbGroup,
    epilog=_DASHBOARDS_EXAMPLES,
)
def dashboards() -> None:
    """Write the alerts of Prometheus and the dashboard of Grafana that fit this release."""


@dashboards.command(epilog=_DASHBOARDS_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option(
    "--runbooks",
    metavar="URL",
    callback=_url,
    help="Where your copy of the page of runbooks is, for runbook_url of each alert.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@output_option()
def export(
    *, directory: Path, force: bool, runbooks: str | None, dry_run: bool, output: str
) -> None:
    """Write alerts.yml, an example prometheus.yml, and broker-ctl.json for Grafana.

    Their metrics are those of the daemon that comes with this command: write them again after
    an upgrade.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json

    targets = {directory / Path(name).name: read_text(name) for name in _NAMES}
    if runbooks is not None:
        alerts = directory / "alerts.yml"
        targets[alerts] = targets[alerts].replace(_RUNBOOKS, f'runbook_url: "{runbooks}#')
    for path in targets:
        if path.exists() and not force:
            raise click.ClickException(f"{path} exists; --force replaces it")
    if not dry_run:
        for path, text in targets.items():
            write_file(path, text, FILE_MODE)
    if output == "json":
        result = "dry_run" if dry_run else "written"
        echo_json({"result": result, "files": [str(path) for path in targets]})
        return
    for path in targets:
        echo(f"{'would write' if dry_run else 'wrote'} {path}")


# ``broker-ctl man-pages``: the manual pages of all commands.


_MAN_PAGES_EXAMPLES: Final = """\b
Examples:
  broker-ctl man-pages export ~/.local/share/man/man1
  broker-ctl man-pages export /usr/local/share/man/man1 --dry-run
"""


@click.group(cls=VerbGroup, epilog=_MAN_PAGES_EXAMPLES)
def man_pages() -> None:
    """Write the manual pages, which say what --help says."""


@man_pages.command(name="export", epilog=_MAN_PAGES_EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@output_option()
@click.pass_context
def man_pages_export(ctx: click.Context, *, directory: Path, dry_run: bool, output: str) -> None:
    """Write one page for each command to DIRECTORY, replacing those of an earlier release.

    Afterwards `man broker-ctl` and `man broker-ctl-bundles-move` find them if the directory above
    is in MANPATH.
    """
    root = click.Context(ctx.find_root().command, info_name="broker-ctl")
    pages = {
        directory / f"{page_name(each.command_path)}.1": manual_page(each)
        for each in every_command(root)
    }
    if not dry_run:
        for path, text in pages.items():
            write_file(path, text, FILE_MODE)
    if output == "json":
        result = "dry_run" if dry_run else "written"
        echo_json({"result": result, "files": [str(path) for path in pages]})
    else:
        echo(f"{'would write' if dry_run else 'wrote'} {len(pages)} pages to {directory}")


# A manual page of a command, in roff, from click's own objects.


def page_name(path: str) -> str:
    """The name of the page of a command: ``broker-ctl-bundles-move``."""
    return path.replace(" ", "-")


def manual_page(ctx: click.Context) -> str:
    """The page of one command; commands below it have pages of their own."""
    command, path = ctx.command, ctx.command_path
    name = page_name(path)
    title = _text(name.upper())
    release = _text(f"broker-ctl {version('broker-ctl')}")
    lines = [
        f'.TH "{title}" "1" "" "{release}" "broker\\-ctl"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(command.get_short_help_str(1_000).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(path)}",
        _text(" ".join(command.collect_usage_pieces(ctx))),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or command.short_help or ""),
        *_options(ctx),
        *_commands(ctx),
        *_epilog(command.epilog or ""),
        *_see_also(ctx),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _options(ctx: click.Context) -> Iterator[str]:
    records = (parameter.get_help_record(ctx) for parameter in ctx.command.get_params(ctx))
    shown = [record for record in records if record is not None]
    if shown:
        yield ".SH OPTIONS"
    for spelling, text in shown:
        yield from (".TP", f".B {_text(spelling)}", _line(text) or "\\&")


def _commands(ctx: click.Context) -> Iterator[str]:
    if not isinstance(ctx.command, click.Group):
        return
    yield ".SH COMMANDS"
    for child in _children(ctx):
        name = page_name(child.command_path)
        yield from (".TP", f".BR {_text(name)} (1)", _line(child.command.get_short_help_str(1_000)))


def _children(ctx: click.Context) -> Iterator[click.Context]:
    assert isinstance(ctx.command, click.Group)
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        if command is not None and not command.hidden:
            yield click.Context(command, info_name=name, parent=ctx)


def every_command(ctx: click.Context) -> Iterator[click.Context]:
    """A command, and all below it that are listed."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for child in _children(ctx):
            yield from every_command(child)


def _epilog(text: str) -> Iterator[str]:
    """Each paragraph of an epilog begins with its heading, and keeps its lines."""
    for paragraph in _split(text):
        heading, _, body = paragraph.removeprefix("\b").strip("\n").partition("\n")
        if heading.endswith(":") and body:
            yield f".SH {_text(heading.removesuffix(':').upper())}"
            yield from _kept(body)
        elif heading.startswith("Exit codes:"):
            yield ".SH EXIT CODES"
            yield _line(f"{heading.removeprefix('Exit codes:')} {body}")
        else:
            yield from _paragraphs(paragraph)


def _see_also(ctx: click.Context) -> Iterator[str]:
    if ctx.parent is not None:
        yield from (".SH SEE ALSO", f".BR {_text(page_name(ctx.parent.command_path))} (1)")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _split(text):
        yield ".PP"
        if paragraph.startswith("\b"):
            yield from _kept(paragraph.removeprefix("\b").strip("\n"))
        else:
            yield _line(paragraph)


def _kept(text: str) -> Iterator[str]:
    """Lines as they are."""
    yield from (".nf", *map(_text, text.splitlines()), ".fi")


def _split(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def _line(text: str) -> str:
    return _text(" ".join(text.split()))


def _text(text: str) -> str:
    """Text in which roff finds no requests; a hyphen stays the character that is typed."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


# ``broker-ctl units``: the systemd unit, with the paths of this installation.


_UNITS_EXAMPLES: Final = """\b
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


@click.group(cls=VerbGroup, epilog=_UNITS_EXAMPLES)
def units() -> None:
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


@units.command(epilog=_UNITS_EXAMPLES)
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
