# Declarations of native.pyx, inlined where they are used.
cimport cython

cdef extern from "primitives.h":
    ctypedef struct rp_lock:
        pass
    void rp_lock_acquire(rp_lock *lock) noexcept
    void rp_lock_release(rp_lock *lock) noexcept
    long long rp_monotonic_ns() noexcept
    long long rp_clamp(object number) except? -1
    long long rp_floor_ms(long long ns) noexcept
    long long rp_ceil_ms(long long ns) noexcept
    long long rp_whole_ms(double seconds) noexcept
    int rp_bit_length(long long number) noexcept
    unsigned int rp_thread_mark() noexcept
    void rp_lock_thing(object thing) noexcept
    void rp_unlock_thing(object thing) noexcept
    object rp_look_up(dict mapping, object key)
    void rp_hide(object thing) noexcept
    void rp_show(object thing) noexcept
    void rp_renew_locks() noexcept
    int rp_deeper() noexcept
    void rp_shallower() noexcept
    void rp_set_postponed(int value) noexcept
    int rp_postponed
    bint FORKS_HOLD_LOCKS "RP_FORKS_HOLD_LOCKS"
    bint HIDES "RP_HIDES"
    long long LIMIT "RP_LIMIT"
    long long MAX_DELAY_MS "RP_MAX_DELAY_MS"


cdef enum:
    COMPILED = 1
    DEEPEST = 20


@cython.final
cdef class CoreLock:
    cdef rp_lock lock

    cdef inline void acquire(self) noexcept:
        rp_lock_acquire(&self.lock)

    cdef inline void release(self) noexcept:
        rp_lock_release(&self.lock)


cdef inline long long monotonic_ns() noexcept:
    return rp_monotonic_ns()


cdef inline unsigned int thread_mark() noexcept:
    return rp_thread_mark()


cdef inline long long clamp(object number) except? -1:
    return rp_clamp(number)


# Of what is not negative, so that the compiler has to divide by a constant and nothing else.
cdef inline long long floor_ms(long long ns) noexcept:
    return rp_floor_ms(ns)


cdef inline long long ceil_ms(long long ns) noexcept:
    return rp_ceil_ms(ns)


cdef inline long long whole_ms(double seconds) noexcept:
    return rp_whole_ms(seconds)


cdef inline int bit_length(long long number) noexcept:
    return rp_bit_length(number)


cdef inline void lock(object thing) noexcept:
    rp_lock_thing(thing)


cdef inline void unlock(object thing) noexcept:
    rp_unlock_thing(thing)


cdef inline object look_up(dict mapping, object key):
    return rp_look_up(mapping, key)


cdef inline int deeper() noexcept:
    return rp_deeper()


cdef inline void shallower() noexcept:
    rp_shallower()


cdef inline void set_postponed(bint value) noexcept:
    rp_set_postponed(value)


cdef inline bint has_postponed() noexcept:
    return rp_postponed


cdef inline void renew_locks() noexcept:
    rp_renew_locks()


cdef inline void hide(object thing) noexcept:
    rp_hide(thing)


cdef inline void show(object thing) noexcept:
    rp_show(thing)
