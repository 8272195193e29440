"""From entries to values: what is ours, what is Pulsar's, what is a slip."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from broker_ctl.settings.compat.deprecated import OLD_KEYS, RENAMED, renamed, translate
from broker_ctl.settings.compat.pulsar_keys import is_pulsar_key
from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.schema import Entry, Problem

# One letter lost, doubled or swapped in a key of ten still lies above it; two keys that only
# share their first words lie below.
_CLOSE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Intake:
    """The entries of one source, sorted.

    Attributes:
        values: by our key.
        origins: where each value was given.
        resets: keys with an empty text, which gives the default back.
        unused: keys that are Pulsar's and mean nothing here.
        unknown: keys that nobody knows.
        warnings: keys that were renamed.
    """

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    resets: set[str] = field(default_factory=set)
    unused: list[Entry] = field(default_factory=list)
    unknown: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def take_in(entries: Iterable[Entry], known: Mapping[str, Declaration]) -> Intake:
    """Sort and read the entries of one source; of two with one key, the later counts."""
    intake = Intake()
    ours: dict[str, Entry] = {}
    for entry in entries:
        if entry.key in known or entry.key in OLD_KEYS:
            ours[entry.key] = entry
        elif is_pulsar_key(entry.key):
            intake.unused.append(entry)
        elif meant := _closest(entry.key, known):
            # The value is not shown: under an unknown key, it could be a secret.
            message = f"unknown key; {meant} is meant"
            intake.problems.append(Problem(entry.origin, entry.key, "", message))
        else:
            intake.unknown.append(entry)
    intake.warnings.extend(_renamed(ours))
    for key, entry in translate(ours).items():
        _read(intake, known[key], entry)
    return intake


def _read(intake: Intake, declaration: Declaration, entry: Entry) -> None:
    if not entry.value and not declaration.setting.is_off_when_empty:
        intake.resets.add(declaration.key)
        return
    try:
        intake.values[declaration.key] = declaration.parse(entry.value)
    except ValueError as error:
        intake.problems.append(Problem.of(entry, str(error)))
    else:
        intake.origins[declaration.key] = entry.origin


def _renamed(ours: Mapping[str, Entry]) -> Iterator[Problem]:
    for key, entry in ours.items():
        if new := RENAMED.get(key):
            effect = "without effect, as the new key is given too" if new in ours else "deprecated"
            yield Problem(entry.origin, key, "", f"{effect}; the key is called {new}")


def _closest(key: str, known: Mapping[str, Declaration]) -> str | None:
    spellings = {known.lower(): known for known in (*known, *OLD_KEYS)}
    found = get_close_matches(key.lower(), spellings, n=1, cutoff=_CLOSE)
    return renamed(spellings[found[0]]) if found else None
