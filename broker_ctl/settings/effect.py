"""Settings that were given and have no effect, with the reason."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker_ctl.settings.conditions import NEVER, Condition
from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.root import DECLARATIONS, Settings


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """A setting that nothing reads, given the other settings.

    Attributes:
        why: the missing conditions, and the current values of the settings that they read.
        instead: keys that strategy balance reads in its place, if that strategy sheds.
    """

    key: str
    origin: str
    why: str
    instead: tuple[str, ...]


def is_used(settings: Settings, key: str) -> bool:
    """Return whether anything reads a setting."""
    return not _missing(settings, DECLARATIONS[key])


def without_effect(settings: Settings) -> Iterator[WithoutEffect]:
    """Settings that were given without effect, in the order of their declarations."""
    for key, declaration in DECLARATIONS.items():
        missing = _missing(settings, declaration)
        if missing and key in settings.origins:
            yield WithoutEffect(
                key, settings.origin(key), _why(settings, missing), _instead(settings, declaration)
            )


def _missing(settings: Settings, declaration: Declaration) -> list[Condition]:
    return [each for each in declaration.setting.used_with if not each.holds(settings)]


def _why(settings: Settings, missing: list[Condition]) -> str:
    if NEVER in missing:
        return "nothing reads it"
    words = " and ".join(condition.words for condition in missing)
    keys = dict.fromkeys(key for condition in missing for key in condition.keys)
    values = (f"{key} is {settings.text(key) or 'unset'} ({settings.origin(key)})" for key in keys)
    return f"needs {words}; {', '.join(values)}"


def _instead(settings: Settings, declaration: Declaration) -> tuple[str, ...]:
    return tuple(key for key in declaration.setting.instead if is_used(settings, key))
