"""``broker-ctl doctor`` and ``support-bundle``: what is wrong, and what those who help need."""

import base64
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import psutil

from broker_ctl.cli.runtime.output import (
    atomic_output,
    check_new,
    echo,
    echo_json,
    output_option,
    print_table,
)
from broker_ctl.cli.runtime.target import Target, config_option, daemon_options, settings_options
from broker_ctl.cli.runtime.verbs import VerbCommand, watch_option
from broker_ctl.codec import encode_pretty

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient
    from broker_ctl.settings.root import Settings
    from broker_ctl.settings.sources import Reading


# Takes secrets out of texts: those that are known, and what looks like one.


HIDDEN: Final = "***"
# Shorter ones would take ordinary words out of texts; nothing that short is a secret.
_SHORTEST: Final = 6
# A name that ends so has a secret; one with File or Path at its end names where it is kept.
_NAME: Final = (
    r"[\w.-]*(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key|secret[_-]?key"
    r"|private[_-]?key|authorization|cookie)"
)
# Texts are of clients, too, and some are long: each shape begins where none of its characters comes
# before, so that a run of them is gone through once, and not once from each of its places.
_SHAPES: Final = (
    (
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        HIDDEN,
    ),
    (
        re.compile(r"(?<![\w-])(?=[\w-]+\.[\w-])([\w-]*?\b)eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[\w.~+/:=-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"//[^/@\s\"']+@"), f"//{HIDDEN}@"),
    (re.compile(r"data:[\w/;,-]*base64,[\w+/=-]+"), f"data:{HIDDEN}"),
    # JSON; a number is not a secret: fencing tokens.
    (re.compile(rf'(?i)("{_NAME}"\s*:\s*)"[^"]+"'), rf'\1"{HIDDEN}"'),
    # Properties, variables and logs. Not a number, and not a word that a space follows at once.
    (
        re.compile(rf"(?i)(?<![\w.-])({_NAME}\s?=\s?)(?!\d+\b)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"']+)"),
        rf"\1{HIDDEN}",
    ),
)


class Redaction:
    """What is taken out of every text.

    Args:
        secrets: whole secrets that are known, such as the lines of a file of tokens.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.strip() for secret in secrets}
        # The longest first: one may contain another.
        usable = sorted((each for each in known if len(each) >= _SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, usable))) if usable else None

    def of(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for shape, put in _SHAPES:
            text = shape.sub(put, text)
        return text


# A support bundle: named texts without secrets in a tar.gz of bounded size.


_MEMBER_BYTES: Final = 8 * 1024 * 1024
_TOTAL_BYTES: Final = 48 * 1024 * 1024
_MODE: Final = 0o600
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class BundleFile:
    """Collects the members in memory.

    Args:
        top: the directory in the archive.
        at_s: Unix time of all members.
        redaction: of every text.
    """

    def __init__(self, top: str, at_s: float, redaction: Redaction) -> None:
        self._top = top
        self._at_s = at_s
        self._redaction = redaction
        self._members: list[tuple[str, bytes]] = []
        self._rows: list[dict[str, Any]] = []
        self._room = _TOTAL_BYTES

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is in it and what is missing, a row each."""
        return list(self._rows)

    def add(self, name: str, text: str, *, keeps_end: bool = False) -> None:
        """Add a text; one that is too long loses its end, or with ``keeps_end`` its begin."""
        data = self._redaction.of(text).encode(errors="replace")
        room = min(_MEMBER_BYTES, self._room)
        kept = data[max(0, len(data) - room) :] if keeps_end else data[:room]
        self._room -= len(kept)
        self._members.append((name, kept))
        note = "" if len(kept) == len(data) else f"cut from {len(data)} bytes"
        self._rows.append({"name": name, "size_bytes": len(kept), "note": note})

    def add_json(self, name: str, value: Any) -> None:
        """Add a JSON value."""
        self.add(name, encode_pretty(value).decode() + "\n")

    def miss(self, name: str, why: str) -> None:
        """Record that something is missing."""
        self._rows.append({"name": name, "size_bytes": 0, "note": self._redaction.of(why)})

    def write(self, path: Path) -> None:
        """Write the archive; only its owner can read it."""
        manifest = encode_pretty({"members": self._rows}) + b"\n"
        # Of this mode from the first moment: who opens it earlier can read it all later.
        with (
            os.fdopen(os.open(path, _CREATE, _MODE), "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz") as archive,
        ):
            for name, data in (("manifest.json", manifest), *self._members):
                member = tarfile.TarInfo(f"{self._top}/{name}")
                member.size, member.mtime, member.mode = len(data), int(self._at_s), _MODE
                archive.addfile(member, io.BytesIO(data))


# ``broker-ctl doctor``: what is wrong on this machine, and what to do.


_COLUMNS: Final = ("state", "check", "subject", "found")
# As of broker-ctl secrets check.
_CODES: Final = {"ok": 0, "warning": 3, "error": 1}
_EXAMPLES: Final = """\b
Examples:
  broker-ctl doctor --config /etc/broker-ctl/broker.conf
  broker-ctl doctor --config broker.conf --output json
  broker-ctl doctor --set metadataStoreUrl=zk:zk-1:2181 --offline
"""


@click.command(cls=VerbCommand, epilog=_EXAMPLES)
@settings_options("broker.conf of the daemon; without it, environment and --set alone.")
@click.option(
    "--timeout",
    "limit_s",
    type=click.FloatRange(0.1, 60.0),
    default=5.0,
    metavar="SECONDS",
    show_default=True,
    help="Limit of each question to a server.",
)
@click.option(
    "--warn-days",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    help="Days left to a certificate or token below which it is a warning.",
)
@click.option("--offline", "is_offline", is_flag=True, help="Leave out what needs connections.")
@watch_option
@output_option()
def doctor(
    *,
    configuration: Path | None,
    overrides: tuple[str, ...],
    limit_s: float,
    warn_days: float,
    is_offline: bool,
    output: str,
) -> None:
    """Examine configuration, certificates, clock, limits, disks, ports and ZooKeeper.

    Of ZooKeeper: roles and versions of the servers, tickTime (by the command conf, the admin
    server, or what sessions are granted), latency, and whether nodes are closed to others. Every
    warning and error comes with what to do. Nothing is written. Run it as the user of the daemon.

    Exit codes: 0 nothing was found, 1 errors, 2 wrong option or argument, 3 warnings only.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json, print_table
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.doctor.examination import Examination, examine
    from broker_ctl.daemon.doctor.machine import worst
    from broker_ctl.settings.sources import read

    reading = read(configuration, os.environ, overrides)
    findings = examine(reading, SystemClock(), Examination(limit_s, warn_days, is_offline))
    rows = [finding.to_row() for finding in findings]
    state = worst(findings)
    if output == "json":
        echo_json({"state": state.value, "findings": rows})
    else:
        print_table("", _COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
        for finding in findings:
            if finding.advice:
                who = finding.subject or finding.check
                echo(f"{finding.level}: {who}: {finding.found}: {finding.advice}")
    sys.exit(_CODES[state.value])


# The secrets in the files that a configuration names, so that they can be taken out of texts.


_MAX_BYTES: Final = 1024 * 1024


def known_secrets(settings: "Settings") -> Iterator[str]:
    """Whole files, their lines, what stands behind a colon in them, and each in base64 and hex."""
    from broker_ctl.security.key_source import KeySource
    from broker_ctl.settings.root import DECLARATIONS
    from broker_ctl.settings.schema import Guard

    for key, one in DECLARATIONS.items():
        # Certificates and public keys are not secret, and useful.
        if one.setting.guard is not Guard.SECRET and not one.setting.files:
            continue
        value = settings.value(key)
        if isinstance(value, Path):
            for file in [value / name for name in one.setting.files] or [value]:
                yield from _forms_of(file)
        elif isinstance(value, KeySource):
            if value.path is None:
                yield from (value.inline, value.inline.rpartition(",")[2])
            else:
                yield from _forms_of(value.path)


def _forms_of(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES)
    except OSError:
        return
    parts = [content, content.strip()]
    for line in content.splitlines():
        _, _, behind = line.partition(b":")
        parts += [line, behind.strip()]
    for part in parts:
        yield part.decode(errors="replace")
        yield base64.b64encode(part).decode()
        yield part.hex()


# What this machine knows: versions, limits, the journal of the unit, ends of log files.


_LINES: Final = 5_000
_JOURNAL_LIMIT_S: Final = 30.0
_END_BYTES: Final = 4 * 1024 * 1024


def add_machine(bundle: BundleFile) -> None:
    """Versions, processors, memory, and the packages of this environment."""
    memory = psutil.virtual_memory()
    bundle.add_json(
        "machine.json",
        {
            "broker_ctl": version("broker-ctl"),
            "python": sys.version,
            "platform": platform.platform(),
            "cpus": psutil.cpu_count(),
            "load": psutil.getloadavg(),
            "memory_bytes": memory.total,
            "available_bytes": memory.available,
            "packages": sorted(f"{one.name}=={one.version}" for one in distributions()),
        },
    )


def add_journal(bundle: BundleFile, unit: str) -> None:
    """The newest lines of a unit in systemd's journal."""
    arguments = (
        "journalctl",
        f"--unit={unit}",
        f"--lines={_LINES}",
        "--no-pager",
        "--output=short-iso",
    )
    try:
        done = subprocess.run(  # noqa: S603  no shell
            arguments, capture_output=True, check=False, timeout=_JOURNAL_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        bundle.miss("journal.txt", str(error))
        return
    text = done.stdout.decode(errors="replace")
    if done.returncode or "-- No entries --" in text:
        why = done.stderr.decode(errors="replace").strip() or f"no entries of unit {unit}"
        bundle.miss("journal.txt", why)
    else:
        bundle.add("journal.txt", text, keeps_end=True)


def add_logs(bundle: BundleFile, logs: Sequence[Path]) -> None:
    """The ends of files, in whole lines."""
    for number, file in enumerate(logs):
        name = f"logs/{number}-{file.name}"
        try:
            with file.open("rb") as opened:
                size = opened.seek(0, 2)
                opened.seek(max(0, size - _END_BYTES))
                data = opened.read(_END_BYTES)
        except OSError as error:
            bundle.miss(name, str(error))
            continue
        if size > _END_BYTES:
            # Half a line may be half a secret, which nothing recognizes.
            _, _, data = data.partition(b"\n")
        bundle.add(name, data.decode(errors="replace"), keeps_end=True)


# ``broker-ctl support-bundle``: what those who look for a fault need, without secrets.


_SUPPORT_BUNDLE_EXAMPLES: Final = """\b
Examples:
  broker-ctl support-bundle --config /etc/broker-ctl/broker.conf
  broker-ctl support-bundle --config broker.conf --log /var/log/broker-ctl.log --out fault.tar.gz
  broker-ctl support-bundle --url http://broker-2:8080 --token-file admin.token
"""
_SUPPORT_BUNDLE_COLUMNS: Final = ("name", "size", "note")
_PATHS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "daemon/metrics.txt": ("/metrics", {}),
    "daemon/status.json": ("/control/v1/status", {}),
    "daemon/stacks.txt": ("/control/v1/stacks", {}),
    "daemon/load-report.json": ("/admin/v2/broker-stats/load-report", {}),
    "daemon/configuration.json": ("/admin/v2/brokers/configuration/runtime", {}),
    "leader/cluster.json": ("/control/v1/cluster", {}),
    "leader/history.json": ("/control/v1/history", {"limit": "500"}),
    "leader/plan.json": ("/control/v1/plan", {"verbose": "true"}),
    "leader/plans.json": ("/control/v1/plans", {}),
    "leader/drains.json": ("/control/v1/drains", {}),
    "leader/pause.json": ("/control/v1/pause", {}),
    "leader/rollout.json": ("/control/v1/rollout", {}),
    "controller/controller.json": ("/control/v1/partitions/controller", {}),
    "controller/transitions.json": ("/control/v1/partitions/transitions", {"limit": "500"}),
    "controller/reassignments.json": ("/control/v1/partitions/reassignments", {}),
}


@click.command(
    cls=VerbCommand,
    epilog=_SUPPORT_BUNDLE_EXAMPLES,
)
@config_option("broker.conf of the daemon: adds the settings, and what doctor finds.", exists=True)
@click.option(
    "--unit",
    default="broker-ctl",
    show_default=True,
    metavar="NAME",
    help="systemd unit whose journal is added.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose end is added, such as a log; repeatable.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.  [default: broker-ctl-support-HOST-TIME.tar.gz]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@daemon_options
def support_bundle(
    target: Target,
    *,
    configuration: Path | None,
    unit: str,
    logs: tuple[Path, ...],
    out: Path | None,
    force: bool,
) -> None:
    """Write a tar.gz: settings, findings of doctor, metrics, status, decisions, stacks, journal.

    What cannot be had is named in manifest.json. Each part is bounded, all together by 48 MiB.
    Secrets are taken out: the contents of the files of secrets in --config, and whatever looks like
    a key, a token or a password. Look into it before you send it anyway: names of hosts, roles,
    namespaces and topics stay.
    """
    # MERGED
    # MERGED
    from broker_ctl.clock import SystemClock
    from broker_ctl.settings.sources import read

    at = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    top = f"broker-ctl-support-{os.uname().nodename}-{at:%Y%m%dT%H%M%SZ}"
    path = Path(f"{top}.tar.gz") if out is None else out
    check_new(path, "--out", is_forced=force)
    reading = None if configuration is None else read(configuration, os.environ, ())
    secrets = [] if reading is None else list(known_secrets(reading.settings))
    if target.token is not None:
        secrets.append(target.token)
    bundle = BundleFile(top, at.timestamp(), Redaction(secrets))
    add_machine(bundle)
    if reading is None:
        bundle.miss("settings.json", "no --config")
    else:
        _add_settings(bundle, reading)
    target.run(lambda client: _ask(bundle, client))
    add_journal(bundle, unit)
    add_logs(bundle, logs)
    with atomic_output(path) as beside:
        bundle.write(beside)
    _report(target, path, bundle.rows)


def _add_settings(bundle: "BundleFile", reading: "Reading") -> None:
    """The effective settings with their origins, and what doctor finds."""
    from broker_ctl.clock import SystemClock
    from broker_ctl.daemon.doctor.examination import Examination, examine
    from broker_ctl.settings.root import DECLARATIONS

    settings = reading.settings
    rows = [
        {"key": key, "value": settings.text(key), "origin": settings.origin(key)}
        for key in DECLARATIONS
    ]
    # Of other keys the value is left out: an unknown one may be a password.
    others = [{"key": one.key, "origin": one.origin} for one in (*reading.unused, *reading.unknown)]
    bundle.add_json("settings.json", {"settings": rows, "without_effect": others})
    findings = examine(reading, SystemClock(), Examination(limit_s=5.0, warn_days=30))
    bundle.add_json("doctor.json", [finding.to_row() for finding in findings])


async def _ask(bundle: "BundleFile", client: "DaemonClient") -> None:
    """What the daemon, the leader and the controller say; each may be away."""
    from broker_ctl.errors import HttpError

    for name, (path, query) in _PATHS.items():
        try:
            reply = await client.request("GET", path, query)
        except (HttpError, click.ClickException) as error:
            bundle.miss(name, str(error))
        else:
            bundle.add(name, reply.body.decode(errors="replace"))


def _report(target: Target, path: Path, rows: list[dict[str, Any]]) -> None:
    if target.is_json:
        echo_json({"file": str(path), "members": rows})
        return
    from broker_ctl.cli.runtime.output import size_text

    print_table(
        "",
        _SUPPORT_BUNDLE_COLUMNS,
        ([r["name"], size_text(r["size_bytes"]), r["note"]] for r in rows),
    )
    echo(f"wrote {path}; look into it before you send it")
