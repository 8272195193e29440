"""Metrics, alerts, routes and names of the code that pages name in their sentences exist."""

import re
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest

from broker_ctl.core.model.commands import Command
from broker_ctl.instruments.declared import Instruments, exposed_names
from docs._ext import reference_http
from tests.support.rules.families import for_each

ROOT: Final = Path(__file__).parents[2]
CONTRIBUTING: Final = (ROOT / "CONTRIBUTING.md").read_text()
# The changelog has earlier names, and the sources have those of others.
TEXT: Final = "\n".join(
    path.read_text()
    for path in (ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "sources.md"
)
METRIC: Final = re.compile(
    r"`((?:broker_ctl|caffeine_cache|pulsar_(?:lb|broker|metadata|batch)|kafka_[a-z]+)_\w+)"
    r"(\*)?(?:\{(\w+)=)?"
)
ALERT: Final = re.compile(r"\balerts? `?([A-Z][a-z]+[A-Z]\w+)")
# What a caller fills in is in capitals or in braces.
ROUTE: Final = re.compile(r"(?:GET|PUT|POST|DELETE) (?:and `?GET )?(/[\w/{}.-]+)`")
CODE: Final = re.compile(r"`([a-z]+_[a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)`")


@cache
def code() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "broker_ctl").rglob("*.py"))


@cache
def served() -> tuple[re.Pattern[str], ...]:
    verbs = "|".join(command.verb for command in get_args(Command))
    paths = [route.path.replace("{verb}", f"({verbs})") for route in reference_http.routes()]
    return tuple(re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path)) for path in paths)


@for_each(("name", "more", "label"), sorted(set(METRIC.findall(TEXT))))
def test_a_metric_exists(name: str, more: str, label: str) -> None:
    # A histogram is named without the suffixes of its series.
    known = exposed_names() | {one.name for one in Instruments()}
    assert name in known or (more and any(each.startswith(name) for each in known))
    labels = {each for one in Instruments() if one.name == name for each in one.labels}
    assert not label or label in labels


@pytest.mark.parametrize("name", sorted(set(ALERT.findall(TEXT))))
def test_an_alert_exists(name: str) -> None:
    assert f"alert: {name}\n" in (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()


@pytest.mark.parametrize("path", sorted(set(ROUTE.findall(TEXT))))
def test_a_route_exists(path: str) -> None:
    assert any(each.fullmatch(path) for each in served())


@pytest.mark.parametrize("name", sorted(set(CODE.findall(CONTRIBUTING))))
def test_a_name_of_the_code_that_contributors_read_exists(name: str) -> None:
    assert re.search(rf"\b{name}\b", code())
