"""Sources of settings: default < file < environment < ``--set`` < dynamic overrides."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.errors import SettingsError
from broker_ctl.settings.contradictions import contradictions
from broker_ctl.settings.intake import Intake, take_in
from broker_ctl.settings.plugins import allowed_at_run_time, allowed_at_start
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import DYNAMIC_ORIGIN, Entry, Problem

# The text of a broker.conf: lines of ``key=value``, as Java's properties and Pulsar write them.
#
# Lines that start with ``#`` or ``!`` are comments. A backslash at the end of a line continues it.
# Blanks around key and value are dropped; two backslashes mean one.


_BLANKS: Final = " \t\r\f"
_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def parse(text: str, name: str) -> tuple[list[Entry], list[Problem]]:
    """Parse the file called ``name``; returns its entries and the problems of its lines.

    A repeated key is a problem; its first value counts.
    """
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for number, line in _logical_lines(text):
        origin = f"{name}:{number}"
        key, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not equals:
            problems.append(Problem(origin, "", "", "there is no '=' in the line"))
        elif not _KEY.fullmatch(key):
            problems.append(Problem(origin, "", "", "the text before '=' is not a key"))
        elif key in entries:
            first = entries[key].origin.rpartition(":")[2]
            message = f"given twice, in lines {first} and {number}"
            problems.append(Problem(origin, key, "", message))
        else:
            entries[key] = Entry(key, value.replace("\\\\", "\\"), origin)
    return list(entries.values()), problems


def line_of(key: str, value: str) -> str:
    """The line that `parse` reads as this entry."""
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued lines joined, by the number of their first line."""
    joined, first = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(_BLANKS)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined


# Sources of settings: default < file < environment < ``--set`` < dynamic overrides.


ENVIRONMENT_PREFIX: Final = "BROKER_CTL_"
# Environment variables of the command line are all capitals; keys of settings are not.
_OF_THE_COMMAND_LINE: Final = frozenset(
    {"ALLOW_CLEARTEXT", "TLS_CA", "TLS_CERT", "TOKEN_FILE", "TRUSTED_HOSTS", "URL", "ZOOKEEPER"}
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading all sources.

    Attributes:
        settings: the effective settings; an invalid value does not replace that of an earlier
            source.
        problems: problems of all sources; with any of them nothing may be started.
        unused: keys of Pulsar without effect here.
        unknown: unknown keys.
        file: the configuration file; None: there is none.
    """

    settings: Settings
    problems: tuple[Problem, ...]
    unused: tuple[Entry, ...]
    unknown: tuple[Entry, ...]
    file: Path | None = None

    def valid_settings(self) -> Settings:
        """The effective settings, if no source has a problem.

        Raises:
            SettingsError: names all problems of all sources.
        """
        if self.problems:
            raise SettingsError("\n".join(map(str, self.problems)))
        return self.settings


def load(file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> Settings:
    """Load the effective settings.

    Args:
        file: a broker.conf; None for the defaults alone.
        environment: variables named ``BROKER_CTL_<key>`` count.
        overrides: texts ``key=value``; the last of a key counts.

    Raises:
        SettingsError: names all problems of all sources.
    """
    return read(file, environment, overrides).valid_settings()


def read(file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> Reading:
    """As `load`, but returns problems, and the keys without effect, as values."""
    problems: list[Problem] = []
    intakes: list[Intake] = []
    sources: tuple[tuple[list[Entry], list[Problem]], ...] = (
        _from_file(file),
        (list(_from_environment(environment)), []),
        _from_overrides(overrides),
    )
    may_load = allowed_at_start(entry for entries, _ in sources for entry in entries)
    for entries, faults in sources:
        intake = take_in(entries, DECLARATIONS, may_load)
        problems += sorted(faults + intake.problems, key=_line)
        intakes.append(intake)
    settings = _merge(intakes)
    if not problems:
        # Contradictions are only checked between valid values.
        problems += [found.problem(settings) for found in contradictions(settings)]
    return Reading(
        settings,
        tuple(problems),
        tuple(entry for intake in intakes for entry in intake.unused),
        tuple(entry for intake in intakes for entry in intake.unknown),
        file,
    )


def with_dynamic(start: Settings, texts: Mapping[str, str]) -> tuple[Settings, tuple[Problem, ...]]:
    """Apply the overrides of ``/admin/configuration``.

    An invalid override is skipped and reported; the others apply.

    Args:
        start: the settings at the start of the daemon, to which a deleted override returns.
        texts: all overrides, by key.
    """
    entries = [Entry(key, text, DYNAMIC_ORIGIN) for key, text in texts.items()]
    intake = take_in(entries, DECLARATIONS, allowed_at_run_time(start))
    fixed = [key for key in intake.values if not DECLARATIONS[key].setting.is_dynamic]
    strange = [entry.key for entry in intake.unused + intake.unknown]
    problems = [
        *intake.problems,
        *(Problem(DYNAMIC_ORIGIN, key, "", "not dynamic, only read at start") for key in fixed),
        *(Problem(DYNAMIC_ORIGIN, key, "", "not a setting of broker-ctl") for key in strange),
    ]
    values = {key: value for key, value in intake.values.items() if key not in fixed}
    settings = _overridden(start, values)
    # All overrides of a contradiction are skipped, until none is left.
    while found := next(
        (c for c in contradictions(settings) if not values.keys().isdisjoint(c.keys)), None
    ):
        problems.append(found.problem(settings))
        values = {key: value for key, value in values.items() if key not in found.keys}
        settings = _overridden(start, values)
    return settings, tuple(problems)


def _overridden(start: Settings, values: Mapping[str, object]) -> Settings:
    return start.with_values(values, dict.fromkeys(values, DYNAMIC_ORIGIN))


def _line(problem: Problem) -> int:
    line = problem.origin.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _merge(intakes: Sequence[Intake]) -> Settings:
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for intake in intakes:
        for key in intake.resets:
            values.pop(key, None)
            origins.pop(key, None)
        values |= intake.values
        origins |= intake.origins
    return Settings().with_values(values, origins)


def _from_file(file: Path | None) -> tuple[list[Entry], list[Problem]]:
    if file is None:
        return [], []
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        return [], [Problem(str(file), "", "", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return [], [Problem(str(file), "", "", f"not UTF-8 at byte {error.start}")]
    return parse(text, str(file))


def _from_environment(environment: Mapping[str, str]) -> Iterator[Entry]:
    for name, value in sorted(environment.items()):
        key = name.removeprefix(ENVIRONMENT_PREFIX)
        if key != name and key not in _OF_THE_COMMAND_LINE:
            yield Entry(key, value.strip(), "environment")


def _from_overrides(overrides: Sequence[str]) -> tuple[list[Entry], list[Problem]]:
    entries: list[Entry] = []
    problems: list[Problem] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if equals:
            entries.append(Entry(key.strip(), value.strip(), "--set"))
        else:
            problems.append(Problem("--set", key, "", "key=value is expected"))
    return entries, problems
