"""How large a scenario may be: it is held in memory as a whole."""

from typing import Final

MOST_MINUTES: Final = 14 * 24 * 60
# Minutes, or cells of some, times bundles. Four arrays of that many rates: a quarter of a gigabyte.
MOST_CELLS: Final = 16_000_000
MOST_BUNDLES: Final = 200_000
MOST_TOPICS: Final = 1_000_000
MOST_BROKERS: Final = 10_000
MOST_EVENTS: Final = 100_000
