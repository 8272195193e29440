"""Places in a source file where a small change makes another program, and the changes."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED: Final = {"min": "max", "max": "min", "all": "any", "any": "all"}
# What is only said, or only for the type checker.
_SILENT: Final = {"log", "warnings"}


@dataclass(frozen=True, slots=True)
class Change:
    """Replaces bytes ``begin`` to ``end`` of a file."""

    file: str
    line: int
    begin: int
    end: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[: self.begin] + self.new.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_short(self.old)} -> {_short(self.new)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else f"{text[:87]}..."


class _Finder(ast.NodeVisitor):
    """Collects nodes and what may stand in their place; passes over what is not behaviour."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []
        self._functions = 0

    def _add(self, node: ast.AST, new: ast.AST | str) -> None:
        if self._functions:
            text = new if isinstance(new, str) else ast.unparse(new)
            # Parentheses keep an expression together, wherever it stands.
            self.found.append((node, f"({text})" if isinstance(node, ast.expr) else text))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # ast's name
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions += 1
        is_documented = ast.get_docstring(node, clean=False) is not None
        for statement in node.body[1 if is_documented else 0 :]:
            self.visit(statement)
        self._functions -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """It narrows a type."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """It is said."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if _is_silent(node.value):
            return
        if isinstance(node.value, ast.Call | ast.Await):
            self._add(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.generic_visit(node)
        elif isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            self._add(node, f"return {not node.value.value}")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "continue")

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and (other := _COMPARED.get(type(node.ops[0]))):
            self._add(node, ast.Compare(node.left, [other()], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if other := _COMPUTED.get(type(node.op)):
            self._add(node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, node.operand)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and (other := _CALLED.get(node.func.id)):
            self._add(node.func, other)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Await):
            self._add(node.test, ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node, repr(node.value + 1))


def _is_silent(value: ast.expr) -> bool:
    """Whether a statement only says something."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Await):
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id in _SILENT


def changes_of(file: str, source: str) -> Iterator[Change]:
    """All changes of one file, in the order of the source."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, new in finder.found:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        yield Change(file, node.lineno, begin, end, data[begin:end].decode(), new)
