"""Sorts entries into settings, keys of Pulsar, and mistakes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.plugins import plugin_refusal
from broker_ctl.settings.pulsar_keys import OLD_KEYS, is_pulsar_key, translate
from broker_ctl.settings.schema import Entry, Problem

# A key of ten letters with one letter lost, doubled or swapped is more similar than this; keys that
# only share their first words are less similar.
_CLOSE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Intake:
    """The entries of one source, sorted.

    Attributes:
        values: by current key.
        origins: where each value was given.
        resets: keys with an empty text, which restores the default.
        unused: keys of Pulsar without effect here.
        unknown: unknown keys.
    """

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    resets: set[str] = field(default_factory=set)
    unused: list[Entry] = field(default_factory=list)
    unknown: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def take_in(
    entries: Iterable[Entry],
    known: Mapping[str, Declaration],
    may_load: Callable[[str], bool] = lambda _: True,
) -> Intake:
    """Sort and parse the entries of one source; the last entry of a key counts.

    Args:
        entries: of the source.
        known: all settings, by key.
        may_load: whether the code of another package's strategy of that name may be loaded.
    """
    intake = Intake()
    ours: dict[str, Entry] = {}
    for entry in entries:
        if entry.key in known or entry.key in OLD_KEYS:
            ours[entry.key] = entry
        elif is_pulsar_key(entry.key):
            intake.unused.append(entry)
        elif meant := _closest(entry.key, known):
            # The value is not shown: the value of an unknown key could be a secret.
            message = f"unknown key; {meant} is meant"
            intake.problems.append(Problem(entry.origin, entry.key, "", message))
        else:
            intake.unknown.append(entry)
    for key, entry in translate(ours).items():
        if refused := plugin_refusal(known[key], entry, may_load):
            intake.problems.append(refused)
        else:
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


def _closest(key: str, known: Mapping[str, Declaration]) -> str | None:
    spellings = {known.lower(): known for known in (*known, *OLD_KEYS)}
    found = get_close_matches(key.lower(), spellings, n=1, cutoff=_CLOSE)
    return spellings[found[0]] if found else None
