"""Settings that have no effect, that differ among daemons, and all of them as a file."""

import hashlib
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.settings.conditions import NEVER, Condition
from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.root import DECLARATIONS, SUBJECTS, Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.settings.sources import line_of
from broker_ctl.settings.values import write

# Settings that were given and have no effect, with the reason.


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


# What a daemon reports others of its settings, so that those that differ are noticed.
#
# Each daemon publishes in its registration a few digits of a digest of each value that is not the
# default, and that all daemons of a cluster should have in common. Secrets, files, addresses and
# ports are left out.


_DIGITS: Final = 8
# Of the machine, of the process, or secret.
_OWN_ENDINGS: Final = (
    "Address",
    "Addresses",
    "AddressFile",
    "AllowedHosts",
    "Directory",
    "File",
    "FilePath",
    "Port",
    "PortTls",
    "Roles",
)
_OWN: Final = frozenset(
    {
        "advertisedListeners",
        "lookupAdvertisedListeners",
        "brokerId",
        "brokerRack",
        "dataPlaneUrl",
        "kubernetesApiUrl",
        "loadBalancerOverrideBrokerNicSpeedGbps",
        "loadBalancerOverrideBrokerNics",
        "logFormat",
        "logLevel",
        "metadataStoreUrl",
        "configurationMetadataStoreUrl",
        "openTelemetryTracesEndpoint",
        "openTelemetryTracesRequestRatio",
        "pulsarAdminUrl",
        "pulsarStateUrl",
        "simulatedActLog",
        "tokenPublicKey",
        "tokenSecretKey",
    }
)


def is_of_cluster(key: str) -> bool:
    """Whether all daemons of a cluster should have the same value."""
    return key in DECLARATIONS and key not in _OWN and not key.endswith(_OWN_ENDINGS)


def fingerprints(settings: Settings) -> dict[str, str]:
    """By key, of the values that are not the default."""
    default = Settings()
    return {
        key: hashlib.sha256(settings.text(key).encode()).hexdigest()[:_DIGITS]
        for key in DECLARATIONS
        if is_of_cluster(key) and settings.text(key) != default.text(key)
    }


def differing(own: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """The keys in which others differ from this; keys that are not known here do not count."""
    found: set[str] = set()
    for other in others:
        if other != own:
            found |= {key for key in own.keys() | other.keys() if own.get(key) != other.get(key)}
    return frozenset(filter(is_of_cluster, found))


# Renders settings as a broker.conf.
#
# ``python -m broker_ctl.settings.effect`` writes the defaults: `config/broker.conf`.


_WIDTH: Final = 100
_HEADER: Final = (
    "Settings of broker-ctl, each with its default. A key that Pulsar has means what it means "
    "there. Order of precedence: default, this file, environment (BROKER_CTL_<key>), --set "
    "key=value, and at run time the overrides of dynamic ones. An empty value asks for the "
    "default, unless the key's comment says that it is for none."
)
_OVERRIDES_HEADER: Final = (
    f"{_HEADER} A key that is commented out has the default of the release that runs."
)


def render(settings: Settings) -> str:
    """Every key with its value, description, unit, range and default, by subject."""
    return "\n".join(_lines(settings)) + "\n"


def render_plain(settings: Settings) -> str:
    """Every key with its value, without comments."""
    return "".join(line_of(key, settings.text(key)) + "\n" for key in DECLARATIONS)


def render_overrides(settings: Settings) -> str:
    """As `render`, but a key with its default is commented out, and follows the release."""
    return "\n".join(_lines(settings, omit_defaults=True)) + "\n"


def _lines(settings: Settings, *, omit_defaults: bool = False) -> Iterator[str]:
    yield from _comment(_OVERRIDES_HEADER if omit_defaults else _HEADER)
    for subject, kind in SUBJECTS.items():
        yield ""
        yield f"### --- {_title(kind)} --- ###"
        for declaration in DECLARATIONS.values():
            if declaration.subject == subject:
                yield ""
                yield from _comment(declaration.setting.sentence)
                yield from _comment(_terms(declaration))
                line = line_of(declaration.key, settings.text(declaration.key))
                is_default = settings.origin(declaration.key) == DEFAULT_ORIGIN
                yield f"#{line}" if omit_defaults and is_default else line


def _title(subject: type) -> str:
    """The heading of a subject: the first line of its docstring."""
    return (subject.__doc__ or "").partition("\n")[0].rstrip(".")


def _terms(declaration: Declaration) -> str:
    terms = [
        f"in {declaration.unit}" if declaration.unit else "",
        declaration.kind.allowed,
        f"default {write(declaration.default) or 'unset'}",
        "empty for none" if declaration.setting.is_off_when_empty else "",
        "dynamic" if declaration.setting.is_dynamic else "",
    ]
    return "; ".join(term for term in terms if term)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    sys.stdout.write(render(Settings()))
