"""The daily profile as DuckDB works it out: from the lines as they are, without a word of ours."""

from pathlib import Path
from typing import Any

from tests.support.pipeline.duckdb_oracle import answered

_SQL = """
WITH every AS MATERIALIZED (
    -- Other kinds of lines have one value where these have a list.
    SELECT * FROM read_json(
        '{history}/*.ndjson.gz', format='newline_delimited',
        columns={{kind: 'VARCHAR', cluster: 'VARCHAR', at_ms: 'BIGINT', epoch: 'BIGINT',
                  cycle: 'BIGINT', bundle: 'JSON',
                  bytes_in: 'JSON', bytes_out: 'JSON', msg_rate_in: 'JSON',
                  msg_rate_out: 'JSON', usage_ratio: 'JSON'}})
    WHERE kind = 'bundle_loads'
), lines AS (
    SELECT cluster, at_ms, epoch, cycle, bundle::VARCHAR[] AS bundle,
           usage_ratio::DOUBLE[] AS usage_ratio,
           bytes_in::DOUBLE[] AS bytes_in, bytes_out::DOUBLE[] AS bytes_out,
           msg_rate_in::DOUBLE[] AS msg_rate_in, msg_rate_out::DOUBLE[] AS msg_rate_out
    FROM every
), loads AS (
    SELECT cluster, at_ms // 3600000 AS hour, epoch, cycle, unnest(bundle) AS bundle,
           unnest(usage_ratio) AS usage_ratio,
           unnest(bytes_in) + unnest(bytes_out) AS bytes_s,
           unnest(msg_rate_in) + unnest(msg_rate_out) AS msg_rate
    FROM lines
), cycles AS (
    -- An hour has those cycles in which something was reported of the cluster.
    SELECT cluster, hour, count(DISTINCT (epoch, cycle)) AS cycles
    FROM loads WHERE bytes_s IS NOT NULL GROUP BY ALL
), hours AS (
    -- A bundle that was there for a third of an hour carried a third of its rate in it.
    SELECT cluster, bundle, hour, sum(bytes_s / cycles) AS bytes_s,
           sum(msg_rate / cycles) AS msg_rate, sum(usage_ratio / cycles) AS usage_ratio
    FROM loads JOIN cycles USING (cluster, hour) WHERE bytes_s IS NOT NULL
    GROUP BY cluster, bundle, hour
), newest AS (SELECT cluster, max(hour // 24) AS day FROM hours GROUP BY ALL)
SELECT cluster, bundle, hour % 24, count(*), median(bytes_s), median(msg_rate), median(usage_ratio)
FROM hours JOIN newest USING (cluster) WHERE hour // 24 > day - {days}
GROUP BY ALL ORDER BY ALL
"""
# Cluster, bundle, hour of the day, days; bytes/s, msg/s, part of a mean broker.
Row = tuple[Any, ...]


def profile_of_lines(history: Path, days: int) -> list[Row]:
    """Hour profiles over the newest ``days``, from the segments of a directory."""
    return answered(_SQL.format(history=history, days=days))


def profile_of_tables(profiles: Path) -> list[Row]:
    """Hour profiles as the pipeline has written them."""
    return answered(
        "SELECT cluster, bundle, hour, days, bytes_s, msg_rate, usage_ratio"
        f" FROM '{profiles}/hour_profiles/*.parquet' ORDER BY ALL"
    )
