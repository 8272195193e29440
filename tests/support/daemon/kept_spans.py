"""Spans without OpenTelemetry."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_ctl.tracing.spans import Attribute, Span, SpanKind


@dataclass
class KeptSpan:
    """A span, and its tracer, that keeps what it is given."""

    name: str = ""
    traceparent: str = ""
    error: str | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    kind: SpanKind = SpanKind.INTERNAL
    parent: str = ""
    children: "list[KeptSpan]" = field(default_factory=list)
    follows_only: bool = False

    def admits(self, parent: str) -> bool:
        return bool(parent) or not self.follows_only

    def begin(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Attribute], parent: str = ""
    ) -> Span:
        began = KeptSpan(
            name, parent or f"of {name}", attributes=attributes, kind=kind, parent=parent
        )
        self.children.append(began)
        return began

    def child(self, name: str, kind: SpanKind, attributes: Mapping[str, Attribute]) -> Span:
        return self.begin(name, kind, attributes)

    def set(self, name: str, value: Attribute) -> None:
        pass

    def end(self, error: str = "") -> None:
        self.error, self.traceparent = error, ""

    def close(self, timeout_s: float) -> None:
        pass
