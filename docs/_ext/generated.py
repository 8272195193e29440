"""The directive ``generated``: a part of the reference, made from what the program runs."""

from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from docs._ext.reference import PAGES


class GeneratedDirective(SphinxDirective):
    """Its argument names the part."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Headings, text and tables in the page."""
        name = self.arguments[0]
        if name not in PAGES:
            raise self.error(f"generated: no part {name!r}; known: {', '.join(PAGES)}")
        return self.parse_text_to_nodes(PAGES[name](), allow_section_headings=True)


def _outdated(*_: object) -> list[str]:
    """Pages to build every time: they are generated from code, which Sphinx does not track."""
    return [
        *(f"reference/{name}" for name in PAGES),
        "reference/floors",
        "reference/state-machines",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("generated", GeneratedDirective)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True}
