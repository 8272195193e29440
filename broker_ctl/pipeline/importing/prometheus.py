"""Reads Pulsar's series from Prometheus by its HTTP API."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from broker_ctl.errors import HttpError, PipelineError
from broker_ctl.http_client import HttpClient
from broker_ctl.pipeline.importing.series import Series, Span


class Source(NamedTuple):
    """A server, and the cluster whose series are read.

    Attributes:
        url: of the server, with the path that its API is below.
        cluster: value of the label ``cluster``; None: series are not selected by it.
    """

    url: str
    cluster: str | None


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that is asked; a `series.Recording`."""

    client: HttpClient
    source: Source

    async def query(self, metric: str, labels: tuple[str, ...], span: Span) -> list[Series]:
        """See `series.Recording`."""
        chosen = [f'{label}!=""' for label in labels]
        if self.source.cluster is not None:
            chosen.append(f'cluster="{_quoted(self.source.cluster)}"')
        asked = {
            "query": f"sum by ({', '.join(labels)}) ({metric}{{{', '.join(chosen)}}})",
            "start": f"{span.first_ms / 1000:.3f}",
            "end": f"{span.last_ms / 1000:.3f}",
            "step": f"{span.step_ms / 1000:g}s",
        }
        url = f"{self.source.url.rstrip('/')}/api/v1/query_range?{urlencode(asked)}"
        reply = await self.client.request("GET", url)
        try:
            answer = reply.json()
        except HttpError as error:
            raise PipelineError(f"{self.source.url}: this is not a Prometheus: {error}") from error
        if not isinstance(answer, dict) or answer.get("status") != "success":
            said = answer.get("error") if isinstance(answer, dict) else answer
            raise PipelineError(f"{self.source.url}: {metric}: status {reply.status}: {said}")
        return list(_series_of(self.source.url, answer, labels))


def _series_of(url: str, answer: Mapping[str, Any], labels: tuple[str, ...]) -> Iterator[Series]:
    try:
        for each in answer["data"]["result"]:
            found = {label: str(each["metric"][label]) for label in labels}
            values = ((round(float(at_s) * 1000), float(text)) for at_s, text in each["values"])
            # A rate that is not a number, or below 0, is none.
            yield Series(found, [pair for pair in values if 0 <= pair[1] < math.inf])
    except (LookupError, TypeError, ValueError) as error:
        raise PipelineError(f"{url}: its answer is not Prometheus': {error!r}") from error


def _quoted(value: str) -> str:
    """A value in a selector of PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
