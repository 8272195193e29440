"""Reasons not to start a daemon with settings that are valid; other tools may use them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from broker_ctl.errors import StartError
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.settings.contradictions import start_refusals
from broker_ctl.settings.pulsar_keys import RESTRICTING, TUNING, WEAKENING
from broker_ctl.settings.schema import Entry, Problem
from broker_ctl.settings.sources import Reading


def start_problems(reading: Reading) -> tuple[Problem, ...]:
    """All reasons not to start a daemon."""
    settings = reading.settings
    accepted = settings.security.accepted_ignored_settings
    return (
        *_writable_by_others(reading.file),
        *(refusal.problem(settings) for refusal in start_refusals(settings)),
        *(
            # Without the value, which may be a secret.
            Problem(
                entry.origin,
                entry.key,
                "",
                "restricts who may do what, and broker-ctl does not implement it: remove it, or "
                "name it in acceptIgnoredSecuritySettings",
            )
            for entry in _ignored_restrictions(reading)
            if entry.key not in accepted
        ),
        *(
            Problem.of(entry, "certificates are always verified: remove it")
            for entry in _outside(reading, WEAKENING)
        ),
    )


def require_startable(reading: Reading) -> None:
    """Refuse settings with which a daemon must not run.

    Raises:
        StartError: names all reasons.
    """
    if problems := start_problems(reading):
        raise StartError("\n".join(map(str, problems)))


def ignored_security(reading: Reading) -> tuple[Entry, ...]:
    """Keys of Pulsar about security that were given in vain, accepted ones included."""
    tuning = (entry for entry in _effective(reading) if entry.key in TUNING and entry.value)
    return (*_ignored_restrictions(reading), *tuning)


def _writable_by_others(file: Path | None) -> Iterator[Problem]:
    """It says who is a super user, and names all files that decide who is believed."""
    if file is None:
        return
    try:
        read_guarded(file)
    except OSError as error:
        yield Problem(str(file), "", "", error.strerror or str(error))


def _ignored_restrictions(reading: Reading) -> Iterator[Entry]:
    return _outside(reading, RESTRICTING)


def _outside(reading: Reading, harmless: Mapping[str, frozenset[str]]) -> Iterator[Entry]:
    """The entries of these keys whose values are not harmless."""
    for entry in _effective(reading):
        values = harmless.get(entry.key)
        if values is not None and entry.value and entry.value.lower() not in values:
            yield entry


def _effective(reading: Reading) -> tuple[Entry, ...]:
    """The last entry of each key that has no effect here."""
    return tuple({entry.key: entry for entry in reading.unused}.values())
