"""The directive ``sequence``; its argument is the title, its content the diagram."""

from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from docs._ext.sequence_drawing import draw
from docs._ext.sequence_text import SequenceError, parse


class SequenceDirective(SphinxDirective):
    """A sequence diagram; a line that is not understood ends the build."""

    has_content: ClassVar[bool] = True
    optional_arguments: ClassVar[int] = 1
    final_argument_whitespace: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The picture in the page."""
        try:
            sequence = parse("\n".join(self.content))
        except SequenceError as error:
            raise self.error(f"sequence, {error}") from error
        identifier = f"sequence-{self.env.new_serialno('sequence')}"
        title = self.arguments[0] if self.arguments else "Sequence diagram"
        picture = draw(sequence, identifier, title)
        return [nodes.raw("", f'<div class="diagram">{picture}</div>', format="html")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("sequence", SequenceDirective)
    return {"parallel_read_safe": True}
