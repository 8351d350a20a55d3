"""The states of an operation. Compiled code has them as constants, from `states.pxd`."""

from __future__ import annotations

# An operation leaves PENDING once, and never returns to it.
PENDING = 0
COMPLETED = 1
EXPIRED = 2
CANCELLED = 3

# The try state: whether a thread is inside `try_complete`, and whether the call has to be repeated
# because of an event that happened meanwhile.
IDLE = 0
TRYING = 1
TRY_AGAIN = 2
# As TRY_AGAIN, and the `try_complete` call itself caused the event.
TRY_AGAIN_FOR_ITSELF = 3
# The operation ended, and its callbacks ran, before a purgatory had it.
OVER_BEFORE = 4
