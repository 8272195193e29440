"""The job that asks for everything a report says, a section after the other."""

from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import SparkSession

from broker_ctl.pipeline.report.sections import (
    advice,
    churn,
    front,
    heat,
    imbalance,
    loads,
    sessions,
    standing,
    summary,
    what_if,
)
from broker_ctl.pipeline.report.source import Places, ReportSource, cluster_of
from broker_ctl.pipeline.report.values import Report, Section
from broker_ctl.pipeline.session import translate_spark_errors

SECTIONS: Final[tuple[Callable[[ReportSource], Section], ...]] = (
    summary.section,
    imbalance.section,
    loads.section,
    heat.section,
    churn.ownership,
    churn.moved_load,
    what_if.section,
    front.section,
    advice.unloads,
    advice.shapes,
    advice.capacity,
    advice.forecasts,
    sessions.sessions,
    sessions.handovers,
    standing.section,
)


def report(
    spark: SparkSession, places: Places, cluster: str | None
) -> Iterator[tuple[Section, Report]]:
    """Each section as it is known, and the report so far.

    Args:
        spark: the session.
        places: where the rows are.
        cluster: whose report; None: of the only one.

    Raises:
        PipelineError: no profiles, no such cluster, or something cannot be read.
    """
    with translate_spark_errors(places.profiles):
        source = ReportSource(spark, places, cluster_of(spark, places, cluster))
        sections: list[Section] = []
        for ask in SECTIONS:
            sections.append(ask(source))
            # The first that has one is the summary: of all the leader's cycles.
            span = next((each.span for each in sections if each.span is not None), None)
            yield sections[-1], Report(source.cluster, span, tuple(sections))
