from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.environment import BuildEnvironment

class SphinxDirective(Directive):
    @property
    def env(self) -> BuildEnvironment: ...
    def parse_text_to_nodes(
        self, text: str = "", /, *, offset: int = -1, allow_section_headings: bool = False
    ) -> list[nodes.Node]: ...
