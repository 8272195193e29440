"""The newest cycle of a history that is there as a whole."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def select_latest_cycle(broker_loads: DataFrame) -> Column | None:
    """Which rows of the tables of cycles are of it; None: there is no cycle.

    It is the last but one, if there are two: of the very last some rows may still stand in an open
    segment.

    Args:
        broker_loads: those of one cluster.
    """
    cycles = broker_loads.select("epoch", "cycle").distinct()
    newest = cycles.orderBy(F.desc("epoch"), F.desc("cycle")).limit(2).collect()
    if not newest:
        return None
    epoch, cycle = newest[-1]
    return (F.col("epoch") == F.lit(epoch)) & (F.col("cycle") == F.lit(cycle))
