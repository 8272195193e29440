"""Which refused requests have a line each: a flood of them must not rotate the log away.

Of the others, one line stands for all of one address, role and status within `SUM_S`. A daemon that
is killed loses no more than the sums of that time.
"""

import math
from dataclasses import replace
from typing import Final

from broker_ctl.security.audit.event import AuditEvent, EventKind

WINDOW_S: Final = 60.0
MAX_REFUSALS: Final = 120
MAX_OF_ADDRESS: Final = 30
SUM_S: Final = 15.0
# Clients beyond these have one sum together.
MAX_SUMS: Final = 64

_Key = tuple[str, str, str]
_OTHERS: Final[_Key] = ("", "", "")
_BEYOND: Final = "further refusals, beyond the number that is listed in a minute"
_OF_OTHERS: Final = "further refusals, of more clients than are counted one by one"


class RefusalAggregator:
    """Passes `MAX_REFUSALS` a minute, `MAX_OF_ADDRESS` of one address, and sums up the others.

    Attributes:
        due_s: monotonic time at which the sums are to be written; infinity: there are none.
    """

    def __init__(self) -> None:
        self._began_s = -math.inf
        self._passed = 0
        # At most MAX_REFUSALS entries.
        self._of_address: dict[str, int] = {}
        self._sums: dict[_Key, AuditEvent] = {}
        self.due_s = math.inf

    def passes(self, address: str, now_s: float) -> bool:
        """Whether a refusal has a line of its own; if not, `add` it."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._passed = now_s, 0
            self._of_address.clear()
        of_address = self._of_address.get(address, 0)
        if self._passed >= MAX_REFUSALS or of_address >= MAX_OF_ADDRESS:
            return False
        self._passed += 1
        self._of_address[address] = of_address + 1
        return True

    def add(self, event: AuditEvent, now_s: float) -> None:
        """Add a refusal to the sum of its address, role and status."""
        key = (event.address, event.principal, event.status)
        if key not in self._sums and len(self._sums) >= MAX_SUMS:
            key = _OTHERS
        known = self._sums.get(key)
        if known is not None:
            self._sums[key] = replace(known, at_ms=event.at_ms, count=known.count + 1)
            return
        address, principal, status = key
        self._sums[key] = AuditEvent(
            kind=EventKind.REFUSAL,
            at_ms=event.at_ms,
            since_ms=event.at_ms,
            count=1,
            address=address,
            principal=principal,
            status=status,
            reason=_OF_OTHERS if key == _OTHERS else _BEYOND,
        )
        self.due_s = min(self.due_s, now_s + SUM_S)

    def __len__(self) -> int:
        return len(self._sums)

    def take(self) -> list[AuditEvent]:
        """The sums, which begin again."""
        sums, self._sums, self.due_s = list(self._sums.values()), {}, math.inf
        return sums
