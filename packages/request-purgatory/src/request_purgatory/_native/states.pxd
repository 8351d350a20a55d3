# The constants of states.py; a test compares the two.
cdef enum:
    PENDING = 0
    COMPLETED = 1
    EXPIRED = 2
    CANCELLED = 3

cdef enum:
    IDLE = 0
    TRYING = 1
    TRY_AGAIN = 2
    TRY_AGAIN_FOR_ITSELF = 3
    OVER_BEFORE = 4
