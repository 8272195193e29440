"""The topics that have traffic throughout a run."""

from typing import Final

from broker_ctl.core.model.names import Namespace, Topic

NAMESPACE: Final = Namespace("public", "default")
BUNDLES: Final = 16
_TOPICS: Final = 64


def topics() -> list[Topic]:
    """Some for each bundle."""
    return [Topic("persistent", NAMESPACE, f"topic-{number}") for number in range(_TOPICS)]
