"""Tests of the ownership room but for those that cut each act at each point, which take minutes."""

from typing import Final

_SUBJECTS: Final = (
    *("command_handler", "acquire", "release", "reclaim", "owner_cache", "ownership", "split"),
    *("merge", "dataplane_watch", "ownership_changes", "serving_log"),
)
IN_OWNERSHIP: Final = tuple(f"broker/ownership/test_{subject}.py" for subject in _SUBJECTS)
