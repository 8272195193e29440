"""Events of JSON logs: each is logged by the place that its row names, with these fields."""

import ast
import json
import logging
import re
from collections import Counter
from pathlib import Path

import pytest

import broker_ctl
from broker_ctl.core.model.names import Bundle
from broker_ctl.daemon.lifecycle.logs import EVENTS, JsonFormatter, LogEvent
from tests.support.rules.families import for_each

PACKAGE = Path(broker_ctl.__file__).parent
NAME = re.compile(r"[a-z]+(-[a-z]+)+")
FIELD = re.compile(r"[a-z]+(_[a-z]+)*")


def width(argument: ast.expr) -> int:
    """How many values an argument is: a tuple that is unpacked is several."""
    if isinstance(argument, ast.Starred):
        assert isinstance(argument.value, ast.Tuple)
        return len(argument.value.elts)
    return 1


def calls_of(module: str) -> dict[str, int]:
    """The sentences that a module logs, with the number of what fills each in."""
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return {
        str(node.args[0].value): sum(map(width, node.args[1:]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


@for_each("event", EVENTS)
def test_an_event_is_logged_where_its_row_says(event: LogEvent) -> None:
    assert calls_of(event.module).get(event.sentence) == len(event.fields)


def test_names_are_unique_and_of_one_form() -> None:
    assert [name for name, count in Counter(e.name for e in EVENTS).items() if count > 1] == []
    places = Counter((event.module, event.sentence) for event in EVENTS)
    assert [place for place, count in places.items() if count > 1] == []
    for event in EVENTS:
        assert NAME.fullmatch(event.name), event.name
        assert all(FIELD.fullmatch(field) for field in event.fields), event.fields


def line(logger: str, sentence: str, *arguments: object) -> dict[str, object]:
    record = logging.LogRecord(logger, logging.INFO, "x.py", 1, sentence, arguments, None)
    found: dict[str, object] = json.loads(JsonFormatter().format(record))
    return found


def test_a_line_has_its_event_and_named_fields() -> None:
    bundle = Bundle.parse("t/ns/0x00000000_0x40000000")
    found = line("broker_ctl.broker.ownership.acquire", "acquired %s, token %d", bundle, 101)
    assert found["event"] == "bundle-acquired"
    assert found["fields"] == {"bundle": str(bundle), "token": 101}
    assert found["message"] == f"acquired {bundle}, token 101"


@pytest.mark.parametrize("logger", ["broker_ctl.broker.ownership.other", "aiohttp"])
def test_the_same_sentence_of_another_logger_has_no_event(logger: str) -> None:
    found = line(logger, "acquired %s, token %d", "x", 1)
    assert found.keys() == {"time", "level", "logger", "message"}
