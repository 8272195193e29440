"""The files in config/, and the way from settings to text and back."""

import re
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.limits import BrokerLimits, QuietHours
from broker_ctl.security.certificates.certificate_roles import MappingRules
from broker_ctl.security.key_source import KeySource
from broker_ctl.settings import sources
from broker_ctl.settings.addresses import (
    Address,
    HttpUrl,
    Listener,
    LookupListener,
    StateUrl,
    StoreUrl,
)
from broker_ctl.settings.effect import render, render_plain
from broker_ctl.settings.intake import take_in
from broker_ctl.settings.root import DECLARATIONS, SUBJECTS, Settings
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.sources import read
from broker_ctl.settings.startable import require_startable

CONFIG = Path(__file__).parents[2] / "config"

NAMES = st.from_regex(re.compile(r"[a-z][a-z0-9-]{0,6}[a-z0-9]", re.ASCII), fullmatch=True)
PORTS = st.integers(1, 65_535)
HOSTS = st.one_of(NAMES, st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str))
ADDRESSES = st.builds(Address, HOSTS, PORTS)
# Names alone: not every IP address can be published.
PUBLISHED = st.builds(Address, NAMES, PORTS)
PATHS = st.sampled_from(["", "/a", "/a/b.c-d", "/\u00e4"])
# Printable, without a comma, and with blanks only between words.
WORDS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=","), min_size=1)
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
STRATEGIES: dict[object, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    str: TEXTS,
    Path: TEXTS.map(Path).filter(lambda path: str(path) == str(path).strip()),
    StoreUrl: st.builds(StoreUrl, st.lists(ADDRESSES, min_size=1).map(tuple), PATHS),
    StateUrl: st.sampled_from(
        [
            StateUrl.parse(text)
            for text in ("memory:", "file:/a/b", "kubernetes:a/b", "kubernetes:c")
        ]
    ),
    Listener: st.builds(Listener, NAMES, st.sampled_from(["pulsar", "https"]), PUBLISHED),
    LookupListener: st.builds(LookupListener, NAMES, st.just("pulsar+ssl"), PUBLISHED),
    QuietHours: st.sampled_from([QuietHours(), QuietHours.parse("22:00-06:00,12:00-13:00")]),
    BrokerLimits: st.sampled_from(
        [BrokerLimits(), BrokerLimits.parse("a-.* usage=70 topics=5000; .* mbytes_in=0.5")]
    ),
    HttpUrl: st.builds(HttpUrl, st.sampled_from(["http", "https"]), ADDRESSES, PATHS),
    Namespace: st.builds(Namespace, NAMES, NAMES),
    MappingRules: st.sampled_from(
        [MappingRules.parse(text) for text in ("DEFAULT", r"RULE:CN=([^\/]*),.*/a-$1/L,DEFAULT")]
    ),
    # The text of an inline key is never shown, and so never rendered.
    KeySource: NAMES.map(lambda name: KeySource(Path(f"/keys/{name}"))),
}


def values(hint: Any, setting: Setting) -> st.SearchStrategy[Any]:
    if isinstance(hint, UnionType):
        inner = next(item for item in get_args(hint) if item is not NoneType)
        return st.none() | values(inner, setting)
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0], setting), min_size=1, max_size=3).map(tuple)
    if setting.catalog:
        return st.sampled_from(list(setting.catalog.entries))
    if setting.check:
        return st.sampled_from(["a.example.com", "10.0.0.1", "fd00::1"])
    if setting.matches:
        return st.from_regex(re.compile(setting.matches, re.ASCII), fullmatch=True)
    return numbers(hint, setting) if hint in {int, float} else others(hint)


def numbers(hint: type, setting: Setting) -> st.SearchStrategy[float]:
    low = setting.at_least or setting.above or 0
    if hint is int:
        return st.integers(int(low), int(setting.at_most or 2**31 - 1))
    return st.floats(
        low,
        setting.at_most or setting.below,
        exclude_min=setting.above is not None,
        exclude_max=setting.below is not None,
        allow_infinity=False,
        allow_nan=False,
    )


def others(hint: type) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(hint)) if issubclass(hint, StrEnum) else STRATEGIES[hint]


def all_values() -> st.SearchStrategy[dict[str, Any]]:
    hints = {name: get_type_hints(kind, include_extras=True) for name, kind in SUBJECTS.items()}
    return st.fixed_dictionaries(
        {},
        optional={
            key: values(*get_args(hints[declaration.subject][declaration.name]))
            for key, declaration in DECLARATIONS.items()
        },
    )


@given(all_values())
def test_rendered_settings_are_read_as_the_same_settings(values: dict[str, Any]) -> None:
    settings = Settings().with_values(values, {})
    for text in (render(settings), render_plain(settings)):
        entries, problems = sources.parse(text, "a.conf")
        intake = take_in(entries, DECLARATIONS)
        assert problems + intake.problems + intake.unused + intake.unknown == []
        assert Settings().with_values(intake.values, {}) == settings


def test_broker_conf_holds_every_key_with_its_default() -> None:
    text = (CONFIG / "broker.conf").read_text(encoding="utf-8")
    assert text == render(Settings()), "run: python -m broker_ctl.settings.effect"
    assert re.findall(r"^(\w+)=", text, re.MULTILINE) == list(DECLARATIONS)


def test_the_minimal_file_starts_a_broker() -> None:
    reading = read(CONFIG / "broker-minimal.conf", {}, [])
    assert (reading.problems, reading.unused, reading.unknown) == ((), (), ())
    require_startable(reading)


def test_the_examples_in_the_minimal_file_are_settings_too(tmp_path: Path) -> None:
    text = (CONFIG / "broker-minimal.conf").read_text(encoding="utf-8")
    examples = dict(re.findall(r"^#   (\w+)=(.*)$", text, re.MULTILINE))
    assert len(examples) == 14
    reading = read(
        CONFIG / "broker-minimal.conf", {}, [f"{key}={value}" for key, value in examples.items()]
    )
    assert (reading.problems, reading.unused, reading.unknown) == ((), (), ())
    require_startable(reading)


def test_a_comment_gives_sentence_unit_range_default_and_whether_it_is_dynamic() -> None:
    block = (
        "# Pause between the end of one shedding cycle and the start of the next.\n"
        "# in minutes; a number of at least 0.001; default 1; dynamic\n"
        "loadBalancerSheddingIntervalMinutes=0.1\n"
    )
    settings = Settings().with_values({"loadBalancerSheddingIntervalMinutes": 0.1}, {})
    assert block in render(settings)
