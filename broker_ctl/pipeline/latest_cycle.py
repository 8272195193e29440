"""The newest complete cycle of a history."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def select_latest_cycle(broker_loads: DataFrame) -> Column | None:
    """Condition for its rows in the tables of cycles; None: there is no cycle.

    It is the last but one, if there are two: some rows of the last may still be in an open segment.

    Args:
        broker_loads: those of one cluster.
    """
    cycles = broker_loads.select("epoch", "cycle").distinct()
    newest = cycles.orderBy(F.desc("epoch"), F.desc("cycle")).limit(2).collect()
    if not newest:
        return None
    epoch, cycle = newest[-1]
    return (F.col("epoch") == F.lit(epoch)) & (F.col("cycle") == F.lit(cycle))
