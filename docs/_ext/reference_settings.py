"""The settings as a page, from their declarations."""

from collections.abc import Iterator

from broker_ctl.settings.conditions import NEVER
from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.pulsar_keys import SPELLINGS
from broker_ctl.settings.root import DECLARATIONS, SUBJECTS
from broker_ctl.settings.values import write
from docs._ext.markdown import code, escape


def page() -> str:
    """By subject, in the order of broker.conf."""
    return "\n".join(_sections())


def anchor(key: str) -> str:
    """Where a setting is explained."""
    return f"setting-{key.lower()}"


def _sections() -> Iterator[str]:
    for subject, kind in SUBJECTS.items():
        title = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
        yield f"## {escape(title)}\n"
        for declaration in DECLARATIONS.values():
            if declaration.subject == subject:
                yield from _entry(declaration)


def _entry(declaration: Declaration) -> Iterator[str]:
    setting = declaration.setting
    yield f"({anchor(setting.key)})="
    yield f"### {code(setting.key)}\n"
    yield f"{escape(setting.sentence)}\n"
    conditions = [one for one in setting.used_with if one is not NEVER]
    facts = {
        "Default": code(write(declaration.default)) or "unset",
        "Allowed": escape(declaration.kind.allowed),
        "Unit": declaration.unit,
        "Dynamic": "yes" if setting.is_dynamic else "no",
        "Read only with": escape(" and ".join(one.words for one in conditions)),
        "Without effect": "accepted, and nothing reads it" if NEVER in setting.used_with else "",
        "With strategy balance": ", ".join(map(_link, setting.instead)),
        "Empty value": "off" if setting.is_off_when_empty else "",
        "Pulsar's older names": ", ".join(
            code(one.old) for one in SPELLINGS if one.new == setting.key
        ),
    }
    yield " · ".join(f"{name}: {text}" for name, text in facts.items() if text) + "\n"


def _link(key: str) -> str:
    return f"[{code(key)}](#{anchor(key)})"
