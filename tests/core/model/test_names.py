import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import InvalidName

entity = st.text(string.ascii_letters + string.digits + "-=:._", min_size=1, max_size=12).filter(
    lambda text: text not in {".", ".."}
)
local = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="/\x00"), min_size=1
)
domain = st.sampled_from(["persistent", "non-persistent"])
topics = st.builds(Topic.of, domain, st.builds(Namespace, entity, entity), local)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("x", "persistent://public/default/x"),
        ("tenant/ns/x", "persistent://tenant/ns/x"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("PERSISTENT://t/n/x", "persistent://t/n/x"),
        ("persistent://t/n/café", "persistent://t/n/café"),
        ("persistent://t/n/a%2Fb", "persistent://t/n/a%2Fb"),
    ],
)
def test_a_topic_is_normalised_to_its_complete_name(text: str, full: str) -> None:
    assert str(Topic.parse(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tenant/x",
        "a/b/c/d",
        "persistent://t/n",
        "persistent://t/cluster/n/x",
        "persistent://t/n/",
        "queue://t/n/x",
        "://t/n/x",
        "persistent://t/../x",
        "persistent://t/n o/x",
        "persistent://t/n/\x00",
        "persistent://t/n/\ud800",
        "persistent://t/n/" + "x" * 4097,
        "persistent://t/n/.",
        "persistent://t/n/..",
    ],
)
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        Topic.parse(text)


@pytest.mark.parametrize("local", ["a/b", "/", "a//b", ".", "..", "", "\0"])
def test_the_parts_of_a_topic_are_refused_where_its_text_would_be(local: str) -> None:
    with pytest.raises(InvalidName):
        Topic.of("persistent", Namespace.parse("t/n"), local)
    with pytest.raises(InvalidName):
        Topic.parse(f"persistent://t/n/{local}")


@pytest.mark.parametrize("text", ["", "t", "t/n/x", "/n", "t/", "t/.", "../n", "t/n\n", "t/é"])
def test_a_namespace_is_exactly_tenant_and_name(text: str) -> None:
    with pytest.raises(InvalidName):
        Namespace.parse(text)


@pytest.mark.parametrize(
    ("text", "is_pinned"),
    [
        ("pulsar/broker-1:8080", True),
        ("sla-monitor/broker-1:8080", True),
        ("pulsar/system", False),
        ("public/default", False),
        ("tenant/host:8080", False),
    ],
)
def test_heartbeat_and_sla_namespaces_are_pinned(text: str, is_pinned: bool) -> None:
    assert Namespace.parse(text).is_pinned is is_pinned


@given(topics)
def test_a_topic_reads_back_from_its_text(topic: Topic) -> None:
    assert Topic.parse(str(topic)) == topic


@given(st.text())
def test_any_text_parses_or_is_refused_and_never_anything_else(text: str) -> None:
    try:
        topic = Topic.parse(text)
    except InvalidName:
        return
    assert Topic.parse(str(topic)) == topic
