"""The directive ``state-table``: the diagram of a state machine, and its table in words."""

from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from docs._ext.machines import MACHINES, Machine
from docs._ext.markdown import code, table
from docs._ext.state_drawing import draw


class StateTableDirective(SphinxDirective):
    """Its argument names the machine."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """The picture and the table in the page."""
        name = self.arguments[0]
        if name not in MACHINES:
            raise self.error(f"state-table: no machine {name!r}; known: {', '.join(MACHINES)}")
        machine = MACHINES[name]
        identifier = f"states-{self.env.new_serialno('state-table')}"
        picture = f'<div class="diagram">{draw(machine, identifier)}</div>'
        rows = self.parse_text_to_nodes(in_words(machine))
        return [nodes.raw("", picture, format="html"), *rows]


def in_words(machine: Machine) -> str:
    """The table as Markdown."""
    if not any(row.event for row in machine.rows):
        following = {
            state: [row.target for row in machine.rows if row.source == state]
            for state in machine.states
        }
        rows = ([code(state), ", ".join(map(code, next_))] for state, next_ in following.items())
        return table(["State", "May be followed by"], rows)
    return table(
        ["State", "Event", "Next state", "Actions"],
        (
            [code(row.source), code(row.event), code(row.target), ", ".join(map(code, row.actions))]
            for row in machine.rows
        ),
    )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("state-table", StateTableDirective)
    return {"parallel_read_safe": True}
