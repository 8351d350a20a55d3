# The functions of primitives.pyx, inlined where they are used.
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.object cimport PyObject

cdef extern from "primitives.h":
    ctypedef struct rp_lock:
        pass
    void rp_lock_acquire(rp_lock *lock) noexcept
    void rp_lock_release(rp_lock *lock) noexcept
    long long rp_monotonic_ns() noexcept
    long long rp_clamp(object number) except? -1
    long long rp_floor_ms(long long ns) noexcept
    long long rp_ceil_ms(long long ns) noexcept
    long long rp_seconds_to_ms(double seconds) noexcept
    long long rp_ceil_to_ms(double seconds) noexcept
    long long rp_round_to_ns(double seconds) noexcept
    int rp_bit_length(long long number) noexcept
    unsigned int rp_thread_tag() noexcept
    void rp_let_others_run() noexcept
    int rp_thread_stripe() noexcept
    void rp_lock_object(object target) noexcept
    void rp_unlock_object(object target) noexcept
    object rp_dict_get(dict mapping, object key)
    PyObject *rp_dict_setdefault(dict mapping, object key, object value) noexcept
    PyObject *rp_dict_replace(dict mapping, object key, object value) noexcept
    PyObject *rp_dict_pop(dict mapping, object key) noexcept
    int rp_try_complete(object target, object name) noexcept
    object rp_take_error()
    object rp_call_on_complete(object target, object name)
    object rp_call_on_expiration(object target, object name)
    object rp_call_on_cancellation(object target, object name)
    object rp_call_run(object target, object name)
    int rp_refuse_uninitialized(object target) except -1
    bint rp_is_made_slowly(object target) noexcept
    bint rp_is_shared(object target) noexcept
    void rp_reinit_locks() noexcept
    int rp_enter_check() noexcept
    void rp_leave_check() noexcept
    void rp_forget_checks() noexcept
    int rp_depth
    bint rp_borrow_levels() noexcept
    void rp_return_levels(bint borrowed) noexcept
    void rp_set_postponed(int value) noexcept
    int rp_postponed
    bint FORKS_HOLD_LOCKS "RP_FORKS_HOLD_LOCKS"
    bint HOLDS_GIL "RP_HOLDS_GIL"
    int STRIPES "RP_STRIPES"
    long long LIMIT "RP_LIMIT"
    long long MAX_DELAY_MS "RP_MAX_DELAY_MS"


cdef enum:
    COMPILED = 1
    MAX_CHECK_DEPTH = 20


@cython.final
cdef class CoreLock:
    cdef rp_lock lock

    cdef inline void acquire(self) noexcept:
        rp_lock_acquire(&self.lock)

    cdef inline void release(self) noexcept:
        rp_lock_release(&self.lock)


cdef inline long long monotonic_ns() noexcept:
    return rp_monotonic_ns()


cdef inline unsigned int thread_tag() noexcept:
    return rp_thread_tag()


cdef inline long long clamp(object number) except? -1:
    return rp_clamp(number)


# For numbers that are not negative: the compiler emits one division by a constant.
cdef inline long long floor_ms(long long ns) noexcept:
    return rp_floor_ms(ns)


cdef inline long long ceil_ms(long long ns) noexcept:
    return rp_ceil_ms(ns)


cdef inline long long seconds_to_ms(double seconds) noexcept:
    return rp_seconds_to_ms(seconds)


cdef inline long long ceil_to_ms(double seconds) noexcept:
    return rp_ceil_to_ms(seconds)


cdef inline long long round_to_ns(double seconds) noexcept:
    return rp_round_to_ns(seconds)


cdef inline int bit_length(long long number) noexcept:
    return rp_bit_length(number)


cdef inline void let_others_run() noexcept:
    rp_let_others_run()


cdef inline int thread_stripe() noexcept:
    return rp_thread_stripe()


cdef inline void lock_object(object target) noexcept:
    rp_lock_object(target)


cdef inline void unlock_object(object target) noexcept:
    rp_unlock_object(target)


cdef inline object dict_get(dict mapping, object key):
    return rp_dict_get(mapping, key)


# Without an exception handler: NULL is returned where the key raises, and `take_error` has to be the
# next call.
cdef inline PyObject *dict_setdefault(dict mapping, object key, object value) noexcept:
    return rp_dict_setdefault(mapping, key, value)


cdef inline PyObject *dict_replace(dict mapping, object key, object value) noexcept:
    return rp_dict_replace(mapping, key, value)


cdef inline PyObject *dict_pop(dict mapping, object key) noexcept:
    return rp_dict_pop(mapping, key)


cdef inline int require_init(bint initialized, object target) except -1:
    return 0 if initialized else rp_refuse_uninitialized(target)


cdef inline bint is_made_slowly(object target) noexcept:
    return rp_is_made_slowly(target)


cdef inline bint is_shared(object target) noexcept:
    return rp_is_shared(target)


cdef inline int try_complete(object operation) noexcept:
    return rp_try_complete(operation, "try_complete")


cdef inline object take_error():
    return rp_take_error()


cdef inline object call_on_complete(object operation):
    return rp_call_on_complete(operation, "on_complete")


cdef inline object call_on_expiration(object operation):
    return rp_call_on_expiration(operation, "on_expiration")


cdef inline object call_on_cancellation(object operation):
    return rp_call_on_cancellation(operation, "on_cancellation")


cdef inline object call_run(object task):
    return rp_call_run(task, "run")


cdef inline int enter_check() noexcept:
    return rp_enter_check()


cdef inline int check_depth() noexcept:
    return rp_depth


cdef inline void leave_check() noexcept:
    rp_leave_check()


cdef inline void forget_checks() noexcept:
    rp_forget_checks()


cdef inline bint borrow_levels() noexcept:
    return rp_borrow_levels()


cdef inline void return_levels(bint borrowed) noexcept:
    rp_return_levels(borrowed)


cdef inline void set_postponed(bint value) noexcept:
    rp_set_postponed(value)


cdef inline bint has_postponed() noexcept:
    return rp_postponed


# As a typed memoryview would do, whose code is longer than all else in a module that has one.
cdef inline bytearray zeros(Py_ssize_t size):
    return bytearray(8 * size)


cdef inline long long number_at(bytearray numbers, Py_ssize_t index) noexcept:
    return (<long long *> PyByteArray_AS_STRING(numbers))[index]


cdef inline void count_at(bytearray numbers, Py_ssize_t index) noexcept:
    (<long long *> PyByteArray_AS_STRING(numbers))[index] += 1


cdef inline void set_number(bytearray numbers, Py_ssize_t index, long long number) noexcept:
    (<long long *> PyByteArray_AS_STRING(numbers))[index] = number


cdef inline void reinit_locks() noexcept:
    rp_reinit_locks()
