"""The directive ``floors``: the package's floors and imports; it takes no argument."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from docs._ext.floors import draw, house, in_words


class FloorsDirective(SphinxDirective):
    """An import that goes up ends the build."""

    def run(self) -> list[nodes.Node]:
        """The picture and the table in the page."""
        found = house()
        if upward := found.upward():
            raise self.error(f"floors: imports go up: {upward}")
        identifier = f"floors-{self.env.new_serialno('floors')}"
        picture = f'<div class="diagram">{draw(found, identifier)}</div>'
        return [
            nodes.raw("", picture, format="html"),
            *self.parse_text_to_nodes(in_words(found)),
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("floors", FloorsDirective)
    return {"parallel_read_safe": True}
