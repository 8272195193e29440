"""The console explains its terms in the words of the documentation."""

import re
from pathlib import Path
from typing import Final

from broker_ctl.console.render import TERMS

GLOSSARY: Final = Path(__file__).parents[2] / "docs" / "explanation" / "glossary.md"
TEMPLATES: Final = Path(__file__).parents[2] / "broker_ctl" / "console" / "templates"
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def plain(text: str) -> str:
    return " ".join(_LINK.sub(r"\1", text).replace("`", "").split())


def test_each_term_has_the_words_of_the_glossary() -> None:
    glossary = plain(GLOSSARY.read_text())
    assert [name for name, text in TERMS.items() if f"{name} {text}" not in glossary] == []


def test_each_linked_term_is_explained() -> None:
    linked = {
        name
        for template in TEMPLATES.iterdir()
        for name in re.findall(r'parts\.term\("([^"]+)"', template.read_text())
    }
    assert linked
    assert linked <= set(TERMS)
