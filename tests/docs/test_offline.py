"""Resources that a page would load from another host are found."""

from pathlib import Path

import pytest

from docs._ext.offline import external_resources, of_site


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://example.org/a.js"></script>', True),
        ('<script src="//example.org/a.js"></script>', True),
        ('<link rel="stylesheet" href="http://example.org/a.css">', True),
        ('<img src="https://example.org/a.png">', True),
        ("<style>@font-face { src: url(https://example.org/a.woff) }</style>", True),
        ("<style>@import 'https://example.org/a.css';</style>", True),
        ('<svg><use xlink:href="https://example.org/a.svg"/></svg>', True),
        ('<script src="_static/a.js"></script>', False),
        ('<link rel="stylesheet" href="../a.css">', False),
        ('<a href="https://example.org">there</a>', False),
        ('<img src="data:image/png;base64,AA">', False),
    ],
)
def test_resources_that_a_page_loads_from_elsewhere_are_found(html: str, *, found: bool) -> None:
    assert bool(external_resources(html, ".html")) is found


def test_the_whole_judgement_builds_the_site_and_takes_no_warning() -> None:
    run = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    assert "-e '.[docs," in run
    last = run.splitlines()[-1]
    assert last.startswith('"$venv/bin/sphinx-build" -W --keep-going ')
    assert " docs " in last


def test_pages_pictures_and_style_sheets_of_a_site_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text('<img src="https://example.org/a.png">')
    (tmp_path / "b.css").write_text("a { background: url('//example.org/b.png') }")
    (tmp_path / "c.svg").write_text("<style>src: url('https://example.org/a.woff')</style>")
    (tmp_path / "c.txt").write_text('<img src="https://example.org/a.png">')
    assert list(of_site(tmp_path)) == [
        "b.css: style //example.org/b.png",
        "c.svg: style https://example.org/a.woff",
        "sub/a.html: <img> https://example.org/a.png",
    ]
