"""What the console serves unchanged: the libraries of others, and its own files."""

from hashlib import sha256
from importlib.resources import files
from typing import Final

import pytest

from broker_ctl.console.render import VENDORED, Vendored, assets, assets_by_name

STATIC: Final = files("broker_ctl.console") / "static"
LIBRARIES: Final = STATIC / "vendor"
MOST_BYTES: Final = 100_000


@pytest.mark.parametrize("library", VENDORED, ids=lambda one: one.file)
def test_a_library_is_as_its_authors_published_it_and_carries_its_licence(
    library: Vendored,
) -> None:
    assert sha256((LIBRARIES / library.file).read_bytes()).hexdigest() == library.sha256
    assert len((LIBRARIES / library.licence_file).read_text()) > 500
    assert "@" in library.source
    assert library.licence == "0BSD"


def test_nothing_is_there_that_is_not_listed() -> None:
    listed = {name for one in VENDORED for name in (one.file, one.licence_file)}
    assert {path.name for path in LIBRARIES.iterdir()} == listed
    own = {f"vendor/{one.file}" for one in VENDORED} | {"console.css", "console.js", "icon.svg"}
    assert set(assets()) == own


def test_all_of_it_is_small() -> None:
    assert sum(len(asset.body) for asset in assets().values()) < MOST_BYTES


def test_a_name_changes_with_its_content() -> None:
    for path, asset in assets().items():
        assert sha256(asset.body).hexdigest()[:12] in asset.name
        assert assets_by_name()[asset.name].body == (STATIC / path).read_bytes()
