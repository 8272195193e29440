"""Values that become names of directories, as Hive and Spark name them: ``cluster=VALUE``."""

from functools import lru_cache
from typing import Final

# What is escaped in a value.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}
# Of one name, on local disks and on HDFS.
_MOST_BYTES: Final = 255


def escape(value: str) -> str:
    """A value as the name of a directory."""
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in value)


@lru_cache(maxsize=1024)
def directory_fault(column: str, value: str) -> str | None:
    """Why there can be no directory of a value of a column; None: there can."""
    if not value:
        return f"{column} is empty"
    if "\0" in value:
        return f"{column} has a NUL, which no directory has in its name"
    if len(f"{column}={escape(value)}".encode()) > _MOST_BYTES:
        return f"{column} is too long for the name of a directory of {_MOST_BYTES} bytes"
    return None
