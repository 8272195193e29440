"""How the process ends (sysexits.h where a code fits). The service unit knows them."""

from typing import Final

STOPPED: Final = 0
FAILED: Final = 1
# zookeeperSessionReconnectMaxRetries used up: starting again at once would not help.
RETRIES_USED_UP: Final = 69
# zookeeperSessionExpiredPolicy=shutdown.
SESSION_LOST: Final = 70
