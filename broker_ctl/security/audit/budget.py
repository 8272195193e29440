"""How many refused requests are reported: a flood of them must not rotate the log away."""

from typing import Final

WINDOW_S: Final = 60.0
MAX_REFUSALS: Final = 120
MAX_OF_ADDRESS: Final = 30


class RefusalBudget:
    """At most `MAX_REFUSALS` a minute, and `MAX_OF_ADDRESS` of one address; others are counted.

    Attributes:
        omitted: refusals that were not reported since `take_omitted`.
    """

    def __init__(self) -> None:
        self._began_s = 0.0
        self._reported = 0
        # At most MAX_REFUSALS entries.
        self._of_address: dict[str, int] = {}
        self.omitted = 0

    def spend(self, address: str, now_s: float) -> bool:
        """Whether a refusal is reported."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._reported = now_s, 0
            self._of_address.clear()
        of_address = self._of_address.get(address, 0)
        if self._reported >= MAX_REFUSALS or of_address >= MAX_OF_ADDRESS:
            self.omitted += 1
            return False
        self._reported += 1
        self._of_address[address] = of_address + 1
        return True

    def take_omitted(self) -> int:
        """The number of omitted refusals, which begins again at 0."""
        omitted, self.omitted = self.omitted, 0
        return omitted
