# The functions of hiding.pyx, inlined where they are used.

cdef extern from "hiding.h":
    bint FREE_THREADED "RP_FREE_THREADED"
    bint HIDES "RP_HIDES"
    void rp_hide(object operation) noexcept
    void rp_show(object operation) noexcept


cdef inline void hide(object operation) noexcept:
    rp_hide(operation)


cdef inline void show(object operation) noexcept:
    rp_show(operation)
