"""How an operation stands. Compiled code has these numbers from `states.pxd`, as constants."""

from __future__ import annotations

# An operation leaves PENDING once, and never comes back.
PENDING = 0
COMPLETED = 1
EXPIRED = 2
CANCELLED = 3

# Whether somebody is inside its try_complete, and whether that has to be called again because of an
# event meanwhile.
IDLE = 0
TRYING = 1
TRY_AGAIN = 2
# As TRY_AGAIN, where the event came out of the try itself.
TRY_AGAIN_FOR_ITSELF = 3
