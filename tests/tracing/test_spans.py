"""Where a span is a child, a root or nothing."""

import pytest

from broker_ctl.tracing.open_telemetry import OpenTelemetryTracer
from broker_ctl.tracing.spans import (
    SpanKind,
    caused_span,
    child_span,
    current_traceparent,
    is_valid,
    request_span,
    root_span,
)
from tests.support.daemon.kept_spans import KeptSpan


def test_without_a_tracer_there_is_no_span() -> None:
    with root_span(None, "a", SpanKind.SERVER) as root, caused_span(None, "b") as caused:
        assert root is caused is None
        assert current_traceparent() == ""
        with child_span("c") as child:
            assert child is None


def test_what_runs_in_a_span_is_its_child_and_so_is_a_decision_in_a_request() -> None:
    tracer = KeptSpan()
    with root_span(tracer, "request", SpanKind.SERVER), caused_span(tracer, "decision"):
        assert current_traceparent() == "of decision"
        with child_span("move"):
            pass
    (request,) = tracer.children
    assert [one.name for one in request.children] == ["decision"]
    assert [one.name for one in request.children[0].children] == ["move"]
    assert current_traceparent() == ""


def test_a_request_that_is_not_traced_has_no_span_and_a_decision_in_it_begins_a_trace() -> None:
    tracer = KeptSpan(follows_only=True)
    with request_span(tracer, "request") as request, caused_span(tracer, "decision"):
        assert request is None
    with request_span(tracer, "request", parent="of a client") as request:
        assert current_traceparent() == "of a client"
    assert [(one.name, one.kind) for one in tracer.children] == [
        ("decision", SpanKind.INTERNAL),
        ("request", SpanKind.SERVER),
    ]


def test_requests_are_traced_by_their_share_and_those_with_a_context_always() -> None:
    for ratio, share in ((0.0, 0), (1.0, 1000), (0.25, 250)):
        tracer = OpenTelemetryTracer("http://127.0.0.1:9/v1/traces", ratio, {})
        assert tracer.admits("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
        found = sum(tracer.admits("no context") for _ in range(1000))
        # Five standard deviations.
        assert abs(found - share) <= 5 * (1000 * ratio * (1 - ratio)) ** 0.5


def test_a_decision_that_was_begun_elsewhere_goes_on_in_its_trace() -> None:
    tracer = KeptSpan()
    with caused_span(tracer, "decision", parent="of the earlier leader"):
        assert current_traceparent() == "of the earlier leader"


def test_a_span_says_the_kind_of_an_error_and_not_its_text() -> None:
    tracer = KeptSpan()
    with pytest.raises(ValueError, match="secret"), root_span(tracer, "a", SpanKind.INTERNAL):
        raise ValueError("secret")
    assert tracer.children[0].error == "ValueError"


def test_what_a_span_has_left_running_causes_nothing_in_its_name() -> None:
    tracer = KeptSpan()
    with root_span(tracer, "request", SpanKind.SERVER) as span:
        assert span is not None
        span.end()
        assert current_traceparent() == ""
        with child_span("late") as late:
            assert late is None
    assert tracer.children[0].children == []


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", False),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", False),
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", False),
        ("", False),
    ],
)
def test_only_a_context_as_the_standard_writes_it_is_followed(text: str, valid: bool) -> None:
    assert is_valid(text) is valid
