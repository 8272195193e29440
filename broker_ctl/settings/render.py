"""Renders settings as a broker.conf.

``python -m broker_ctl.settings.render`` writes the defaults: `config/broker.conf`.
"""

import sys
import textwrap
from collections.abc import Iterator
from typing import Final

from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.properties import line_of
from broker_ctl.settings.root import DECLARATIONS, SUBJECTS, Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.settings.values import write

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
