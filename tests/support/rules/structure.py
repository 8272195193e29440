"""The house rules that no linter knows, as functions from files to what breaks them."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

TOP_LEVEL: Final = frozenset(
    {
        *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        *("pyproject.toml", "Makefile", "noxfile.py"),
        *("broker_ctl", "config", "tests", "deploy", "docs"),
    }
)
JUNK_DRAWERS: Final = frozenset({"utils", "util", "helpers", "common", "misc", "base"})
_MACHINES: Final = "from broker_ctl.core.machines"
# Neither pattern matches its own text.
_PACKAGE_INDEX: Final = re.compile(r"https?://[^\s\"'<>]*/simple\b|--(?:extra-)?index-ur[l]")
_HOME: Final = re.compile(r"(?<![\w.~-])/(?:home|Users|roo[t])/[\w.-]")
_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==[\w.!+]+")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Budget:
    """How long things may be, in lines, and how many methods a class may have.

    Attributes:
        driver: lines of a class in a file that imports a state machine: cut elsewhere, its steps
            would be parted from the awaits between them.
    """

    file: int = 400
    function: int = 50
    class_: int = 250
    driver: int = 300
    methods: int = 20

    def times(self, factor: int) -> "Budget":
        """A budget that is larger by a factor."""
        return Budget(
            self.file * factor,
            self.function * factor,
            self.class_ * factor,
            self.driver * factor,
            self.methods * factor,
        )


PACKAGE: Final = Budget()
TESTS: Final = PACKAGE.times(2)


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """A rule that is broken; ``subject`` names the file, and what in it."""

    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}"


def files_of(root: Path) -> list[Path]:
    """All files of the project, relative to its root: what .gitignore leaves."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().split()]

    def walk(directory: Path) -> Iterator[Path]:
        for path in sorted(directory.iterdir()):
            if path.name == ".git" or any(fnmatch(path.name, pattern) for pattern in ignored):
                continue
            if path.is_dir():
                yield from walk(path)
            else:
                yield path.relative_to(root)

    return list(walk(root))


def over_budget(path: Path, source: str, budget: Budget) -> Iterator[Breach]:
    """Files, functions and classes that are too long."""
    lines = source.count("\n")
    longest_class = budget.driver if _MACHINES in source else budget.class_
    if lines > budget.file:
        yield Breach(str(path), f"{lines} lines")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Function):
            if (length := _length(node)) > budget.function:
                yield Breach(f"{path}:{node.name}", f"{length} lines")
        elif isinstance(node, ast.ClassDef):
            methods = sum(isinstance(child, _Function) for child in node.body)
            if (length := _length(node)) > longest_class:
                yield Breach(f"{path}:{node.name}", f"{length} lines")
            if methods > budget.methods:
                yield Breach(f"{path}:{node.name}", f"{methods} methods")


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def junk_drawers(paths: Iterable[Path]) -> Iterator[Breach]:
    """Folders and modules that are named for nothing that is in them."""
    for path in paths:
        if path.suffix == ".py" and not JUNK_DRAWERS.isdisjoint({path.stem, *path.parent.parts}):
            yield Breach(str(path), "named for nothing that is in it")


def crowded(paths: Iterable[Path], most: int) -> Iterator[Breach]:
    """Folders with too many modules side by side to find one by reading their names."""
    modules = Counter(
        path.parent for path in paths if path.suffix == ".py" and path.name != "__init__.py"
    )
    for folder, count in sorted(modules.items()):
        if count > most:
            yield Breach(str(folder), f"{count} modules")


def code_in_init(path: Path, source: str) -> Iterator[Breach]:
    """A package that does more than say what it is, and what of it is public."""
    module = ast.parse(source)
    if path.name != "__init__.py":
        return
    rest = module.body[ast.get_docstring(module) is not None :]
    match rest:
        case [*imports, ast.Assign(targets=[ast.Name(id="__all__")])] if all(
            isinstance(one, ast.ImportFrom) for one in imports
        ):
            return
        case [_, *_]:
            yield Breach(str(path), "code beyond a docstring")


def sleeping(path: Path, source: str) -> Iterator[Breach]:
    """Tests that block for a time instead of waiting for what they want."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep", lineno=line):
                yield Breach(f"{path}:{line}", "time.sleep")
            case ast.ImportFrom(module="time", names=names, lineno=line):
                if "sleep" in {alias.name for alias in names}:
                    yield Breach(f"{path}:{line}", "time.sleep")


def strangers(paths: Iterable[Path]) -> Iterator[Breach]:
    """Files and folders that do not belong at the top level."""
    for name in sorted({path.parts[0] for path in paths} - TOP_LEVEL):
        if not name.startswith("."):
            yield Breach(name, "at the top level")


def unpinned(pyproject: str, constraints: str) -> Iterator[Breach]:
    """Direct dependencies, extras included, without one exact version."""
    project = tomllib.loads(pyproject)["project"]
    wanted = {*project["dependencies"]}.union(*project["optional-dependencies"].values())
    lines = [line for line in constraints.splitlines() if line and not line.startswith("#")]
    pins = {_normal(found[1]) for line in lines if (found := _PIN.fullmatch(line))}
    for line in lines:
        if not _PIN.fullmatch(line):
            yield Breach(line, "no name==version")
    for requirement in sorted(wanted):
        name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
        if _normal(name) not in pins:
            yield Breach(name, "not in deploy/constraints.txt")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def machine_bound(path: Path, content: bytes) -> Iterator[Breach]:
    """Text that holds on one machine only: a package index, a user's home."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ((_PACKAGE_INDEX, "a package index"), (_HOME, "an absolute home")):
            if pattern.search(line):
                yield Breach(f"{path}:{number}", what)
