"""The house rules, held against every file; each checker is shown to find what it looks for."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from tests.support.rules import private_names, structure
from tests.support.rules.families import for_each
from tests.support.rules.structure import Breach, Budget

ROOT: Final = Path(__file__).parents[1]
FILES: Final = structure.files_of(ROOT)


def sources(folder: str) -> Iterator[tuple[Path, str]]:
    for path in FILES:
        if path.parts[0] == folder and path.suffix == ".py":
            yield path, (ROOT / path).read_text()


def rendered(breaches: Iterator[Breach]) -> list[str]:
    return sorted(map(str, breaches))


def test_no_module_is_a_junk_drawer() -> None:
    assert rendered(structure.junk_drawers(FILES)) == []


def test_a_package_says_what_it_is_and_does_nothing() -> None:
    found = (
        breach
        for path, source in sources("broker_ctl")
        for breach in structure.code_in_init(path, source)
    )
    assert rendered(found) == []


def test_no_test_sleeps() -> None:
    found = (b for path, source in sources("tests") for b in structure.sleeping(path, source))
    assert rendered(found) == []


def test_the_top_level_holds_what_belongs_there() -> None:
    assert rendered(structure.strangers(FILES)) == []


def test_every_dependency_is_pinned() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    constraints = (ROOT / "deploy" / "constraints.txt").read_text()
    assert rendered(structure.unpinned(pyproject, constraints)) == []


def test_no_text_is_bound_to_one_machine() -> None:
    found = (b for path in FILES for b in structure.machine_bound(path, (ROOT / path).read_bytes()))
    assert rendered(found) == []


def test_no_private_attribute_of_a_library_is_used() -> None:
    reached = [
        breach
        for path, source in sources("broker_ctl")
        for breach in private_names.by_text(path, source)
    ]
    for path, _ in sources("broker_ctl"):
        name = ".".join(path.with_suffix("").parts)
        if path.name != "__main__.py":
            reached += private_names.inherited(import_module(name.removesuffix(".__init__")))
    assert list(map(str, reached)) == []


# The checkers.

HERE = Path("broker_ctl/x.py")
LITTLE = Budget(file=3, function=2, class_=3, driver=4, methods=1)


@pytest.mark.parametrize(
    ("source", "breaches"),
    [
        ("a = 1\nb = 2\nc = 3\n", []),
        ("a = 1\nb = 2\nc = 3\nd = 4\n", ["broker_ctl/x.py: 4 lines"]),
        ("def f():\n    a = 1\n    return a\n", ["broker_ctl/x.py:f: 3 lines"]),
        ("class C:\n    async def f(self):\n        await g\n", []),
        (
            "class C:\n    def f(self): ...\n    async def g(self): ...\n",
            ["broker_ctl/x.py:C: 2 methods"],
        ),
        (
            "class C:\n    a = 1\n    b = 2\n    c = 3\n",
            ["broker_ctl/x.py: 4 lines", "broker_ctl/x.py:C: 4 lines"],
        ),
        (
            "from broker_ctl.core.machines import x\nclass C:\n    a = 1\n    b = 2\n    c = 3\n",
            ["broker_ctl/x.py: 5 lines"],
        ),
    ],
)
def test_code_over_its_budget_is_found(source: str, breaches: list[str]) -> None:
    assert rendered(structure.over_budget(HERE, source, LITTLE)) == breaches


@pytest.mark.parametrize(
    ("names", "breaches"),
    [
        (["a/__init__.py", "a/b.py", "a/c.py", "a/d/e.py", "a/notes.md"], []),
        (["a/b.py", "a/c.py", "a/d.py"], ["a: 3 modules"]),
    ],
)
def test_a_crowded_folder_is_found(names: list[str], breaches: list[str]) -> None:
    assert rendered(structure.crowded(map(Path, names), 2)) == breaches


@pytest.mark.parametrize(
    ("path", "is_junk"),
    [
        ("broker_ctl/utils.py", True),
        ("broker_ctl/common/clock.py", True),
        ("broker_ctl/database.py", False),
        ("config/base.conf", False),
    ],
)
def test_a_junk_drawer_is_found(path: str, is_junk: bool) -> None:
    assert bool(rendered(structure.junk_drawers([Path(path)]))) is is_junk


@pytest.mark.parametrize(
    ("name", "source", "has_code"),
    [
        ("__init__.py", "", False),
        ("__init__.py", '"""A room."""\n', False),
        ("__init__.py", '"""A room."""\nfrom x import y\n', True),
        ("__init__.py", '"""A room."""\nfrom x import y\n__all__ = ["y"]\n', False),
        ("__init__.py", '"""A room."""\nimport x\n__all__ = ["x"]\n', True),
        ("__init__.py", "print(1)\n", True),
        ("module.py", "print(1)\n", False),
    ],
)
def test_code_in_a_package_is_found(name: str, source: str, has_code: bool) -> None:
    assert bool(rendered(structure.code_in_init(Path(name), source))) is has_code


@pytest.mark.parametrize(
    ("source", "sleeps"),
    [
        ("import time\ntime.sleep(1)\n", True),
        ("from time import sleep\n", True),
        ("import asyncio\nawait_it = asyncio.sleep(1)\n", False),
        ("from time import monotonic\n", False),
    ],
)
def test_a_sleeping_test_is_found(source: str, sleeps: bool) -> None:
    assert bool(rendered(structure.sleeping(HERE, source))) is sleeps


def test_a_stranger_at_the_top_level_is_found() -> None:
    paths = [Path("notes.txt"), Path(".ci/run"), Path("broker_ctl/errors.py"), Path("doc/a/b")]
    assert rendered(structure.strangers(paths)) == [
        "doc: at the top level",
        "notes.txt: at the top level",
    ]


def test_a_dependency_without_a_version_is_found() -> None:
    pyproject = '[project]\ndependencies = ["A_b>=1", "c"]\noptional-dependencies.x = ["d[e]"]\n'
    assert rendered(structure.unpinned(pyproject, "# why\na-b==1.0\nD==2\nf>=3\n")) == [
        "c: not in deploy/constraints.txt",
        "f>=3: no name==version",
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("index = https://packages.example.org/" + "simple", "a package index"),
        ("pip install --index-" + "url x", "a package index"),
        ("open('/" + "home/anna/x')", "an absolute home"),
        ("cd /" + "root/x", "an absolute home"),
        ("GET /admin/v2/home/x", None),
        ("~/.local/state/broker-ctl", None),
    ],
)
def test_text_that_is_bound_to_one_machine_is_found(line: str, what: str | None) -> None:
    found = rendered(structure.machine_bound(HERE, f"\n{line}\n".encode()))
    assert found == ([] if what is None else [f"broker_ctl/x.py:2: {what}"])


def test_ignored_files_are_not_part_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n*.egg-info/\n")
    for name in ("build/a.py", "x.egg-info/PKG-INFO", ".git/HEAD", "broker_ctl/b.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert structure.files_of(tmp_path) == [Path(".gitignore"), Path("broker_ctl/b.py")]


class _Own(web.Response):
    """Names that `private_names.inherited` has to find, and names that it must not."""

    def close(self) -> None:
        self._keep_alive = False
        self._closed = True


def test_a_private_attribute_of_a_base_is_found() -> None:
    here = sys.modules[__name__]
    private = "_keep_alive is private to aiohttp.web_response.StreamResponse"
    assert rendered(private_names.inherited(here)) == [f"{__name__}:_Own: {private}"]


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('vars(route)["_handler"] = f', True),
        ('route.__dict__["_handler"]', True),
        ('setattr(route, "_handler", f)', True),
        ('getattr(row, "_asdict")', False),
        ('getattr(route, "handler")', False),
        ('getattr(route, "__name__")', False),
        ('names["_handler"]', False),
    ],
)
def test_a_private_attribute_that_is_reached_by_a_text_is_found(
    source: str, is_found: bool
) -> None:
    assert rendered(private_names.by_text(HERE, source)) == (
        ["broker_ctl/x.py:1: reaches _handler by a text"] if is_found else []
    )


def test_a_family_names_each_row_that_does_not_hold_and_is_no_test_of_nothing() -> None:
    checked: list[tuple[int, int]] = []

    @for_each(("one", "other"), [(1, 1), (1, 2), (0, 0), (3, 4)])
    def equal(one: int, other: int) -> None:
        checked.append((one, other))
        assert one / one == other / one

    with pytest.raises(AssertionError) as raised:
        equal()
    assert checked == [(1, 1), (1, 2), (0, 0), (3, 4)]
    said = str(raised.value)
    assert said.startswith("3 of 4:")
    assert "0, 0: ZeroDivisionError" in said
    with pytest.raises(AssertionError, match="there is nothing to check"):
        for_each("one", [])(equal)()
