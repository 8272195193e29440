"""The token that a daemon draws for commands on its machine."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.settings.conditions import TOKENS
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class LoopbackTokenSettings:
    """The token for commands on this machine."""

    is_enabled: Annotated[
        bool,
        Setting(
            "loopbackTokenEnabled",
            "Whether the daemon draws a random token of a super user when it starts, for commands "
            "on this machine: they find it by the daemon's loopback URL, in a file that only the "
            "daemon's user can read. A daemon that listens on loopback draws one in any case if no "
            "other token could be verified.",
            used_with=(TOKENS,),
        ),
    ] = False
