"""The formats that the tables of a history may have."""

from enum import StrEnum


class Format(StrEnum):
    """How the tables of a history are written."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"
