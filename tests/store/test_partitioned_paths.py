"""Names of partitioned topics as steps of a path: as Java's URLEncoder writes them, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import DOMAINS, Namespace, Topic
from broker_ctl.errors import InvalidName
from broker_ctl.store import path_rules, paths

NAMESPACE = Namespace("t", "ns")
ROOT = "/admin/partitioned-topics/t/ns"


@pytest.mark.parametrize(
    ("local", "encoded"),
    [
        ("orders", "orders"),
        ("AZaz09.-*_", "AZaz09.-*_"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("a/b", "a%2Fb"),
        ("~", "%7E"),
        ("!'()", "%21%27%28%29"),
        ("a:b@c,d;e=f&g#h?i", "a%3Ab%40c%2Cd%3Be%3Df%26g%23h%3Fi"),
        ("é", "%C3%A9"),
        ("\u65e5\u672c", "%E6%97%A5%E6%9C%AC"),
        ("\U0001f600", "%F0%9F%98%80"),
        ("\n", "%0A"),
        ("...", "..."),
    ],
)
def test_a_local_name_is_encoded_as_java_does(local: str, encoded: str) -> None:
    for domain in DOMAINS:
        path = paths.partitioned_topic(Topic(domain, NAMESPACE, local))
        assert path == f"{ROOT}/{domain}/{encoded}"


@given(st.sampled_from(DOMAINS), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_refused_or_makes_one_usable_path_that_is_read_back(
    domain: str, local: str
) -> None:
    try:
        topic = Topic.of(domain, NAMESPACE, local)
        path = paths.partitioned_topic(topic)
    except InvalidName:
        assert "\x00" in local or "/" in local or local in {".", ".."}
        return
    path_rules.validate(path)
    assert path_rules.parent_of(path) == paths.partitioned_topics(NAMESPACE, domain)
    assert paths.partitioned_topic_of(path) == topic


@pytest.mark.parametrize("local", [".", ".."])
def test_a_name_that_is_a_step_elsewhere_is_refused(local: str) -> None:
    with pytest.raises(InvalidName, match="cannot be a name below"):
        paths.partitioned_topic(Topic("persistent", NAMESPACE, local))


@pytest.mark.parametrize(
    "path",
    [
        ROOT,
        f"{ROOT}/persistent",
        f"{ROOT}/transient/x",
        f"{ROOT}/persistent/x/y",
        f"{ROOT}/persistent/a~b",
        f"{ROOT}/persistent/a%20b",
        f"{ROOT}/persistent/a%2fb",
        f"{ROOT}/persistent/%FF",
        f"{ROOT}/persistent/%00",
        "/admin/partitioned-topics/t/$/persistent/x",
        "/admin/policies/t/ns/persistent/x",
    ],
)
def test_no_other_path_is_a_partitioned_topic(path: str) -> None:
    assert paths.partitioned_topic_of(path) is None
