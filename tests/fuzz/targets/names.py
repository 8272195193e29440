"""Names, paths and patterns of others: refused, or the same after a round."""

from typing import Final

from broker_ctl.core.model import regular_expressions
from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Topic
from broker_ctl.core.model.safe_text import escape, has_control_characters
from broker_ctl.errors import InvalidName
from broker_ctl.store import paths as znodes
from broker_ctl.store.path_rules import validate

# Each puts a name into a path.
_BUILT: Final = (
    znodes.cluster, znodes.tenant, znodes.load_report, znodes.registration, znodes.lease,
    znodes.move, znodes.drain, znodes.plan, znodes.plan_progress, znodes.isolation_policies,
    znodes.broker_time_average,
)  # fmt: skip
# Each reads a path that a server names.
_READ: Final = (
    znodes.owned_bundle, znodes.policies_namespace, znodes.local_policies_namespace,
    znodes.partitioned_topic_of,
)  # fmt: skip


def names(data: bytes) -> None:
    """Each kind of name, as a text that HTTP or a frame delivered."""
    text = data.decode(errors="surrogateescape")
    for kind in (Namespace, Topic, Bundle, BundleRange):
        try:
            found = kind.parse(text)
        except InvalidName:
            continue
        assert kind.parse(str(found)) == found
    assert not has_control_characters(escape(text))


def paths(data: bytes) -> None:
    """A name never leaves the place where it belongs, and a path is of us or is not."""
    text = data.decode(errors="surrogateescape")
    for build in _BUILT:
        try:
            path = build(text)
        except InvalidName:
            continue
        validate(path)
        assert path.count("/") == build("x").count("/")
    for read in _READ:
        read(text)
    try:
        topic = Topic.parse(text)
        path = znodes.partitioned_topic(topic)
    except InvalidName:
        return
    validate(path)
    assert znodes.partitioned_topic_of(path) == topic


def patterns(data: bytes) -> None:
    """Patterns of operators: refused, or matched in a bounded time."""
    pattern, _, text = data.decode(errors="replace").partition("\n")
    try:
        regular_expressions.compiled(pattern)
    except InvalidName:
        return
    regular_expressions.is_match(pattern, text)
