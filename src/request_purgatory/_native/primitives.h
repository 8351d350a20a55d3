/* Locks, time and whole numbers for the compiled core. Included by every compiled module that uses them. */
#ifndef REQUEST_PURGATORY_NATIVE_H
#define REQUEST_PURGATORY_NATIVE_H

#include <Python.h>

#ifdef REQUEST_PURGATORY_ASSERT
#include "planted.h"
#else
#define rp_plant() ((void)0)
#endif

/* ---- locks

   With the interpreter lock held, code that calls nothing cannot be interrupted, so a flag is enough, which is a load and two
   stores instead of two atomic operations or of calls into Python. The flag is found taken only where a holder gave the interpreter lock up, which is when a watch key's own __hash__ or __eq__ runs
   Python code inside a dict: then the other thread waits until the flag is free. */

#ifdef Py_GIL_DISABLED

typedef PyMutex rp_lock;
#define rp_lock_acquire(lock) (rp_plant(), PyMutex_Lock(lock))
#define rp_lock_release(lock) PyMutex_Unlock(lock)

#else

typedef struct {
    volatile char held;
} rp_lock;

#ifdef _WIN32
#include <windows.h>
#define rp_nap() Sleep(0)
#else
#include <time.h>
static inline void rp_nap(void)
{
    struct timespec nap = {0, 20000};
    nanosleep(&nap, NULL);
}
#endif

static void rp_lock_wait(rp_lock *lock)
{
    while (lock->held) {
        Py_BEGIN_ALLOW_THREADS
        rp_nap();
        Py_END_ALLOW_THREADS
    }
}

static inline void rp_lock_acquire(rp_lock *lock)
{
    rp_plant();
    if (lock->held)
        rp_lock_wait(lock);
    lock->held = 1;
}

static inline void rp_lock_release(rp_lock *lock)
{
#ifdef REQUEST_PURGATORY_ASSERT
    if (!lock->held)
        Py_FatalError("request_purgatory: a lock is released that nobody holds");
#endif
    lock->held = 0;
}

#endif

/* The lock of an object's own fields. Under it nothing is called, so the interpreter lock is enough where there is one; otherwise
   objects share 64 mutexes. The mutexes belong to the module that includes this, so only one module may lock objects: operation. */

#ifdef Py_GIL_DISABLED
static PyMutex rp_thing_locks[64];
#define rp_thing_lock(thing) (&rp_thing_locks[((size_t)(thing) >> 5) & 63])
#define rp_lock_thing(thing) PyMutex_Lock(rp_thing_lock(thing))
#define rp_unlock_thing(thing) PyMutex_Unlock(rp_thing_lock(thing))
#else
#define rp_lock_thing(thing) ((void)0)
#define rp_unlock_thing(thing) ((void)0)
#endif

/* ---- forks: with the interpreter lock nothing is half done when another thread forks; the locks of things have to be made free in
   the child by the module that has them. */

#ifdef Py_GIL_DISABLED
#define RP_FORKS_HOLD_LOCKS 1
#define rp_renew_locks() ((void)memset(rp_thing_locks, 0, sizeof rp_thing_locks))
#else
#define RP_FORKS_HOLD_LOCKS 0
#define rp_renew_locks() ((void)0)
#endif

/* ---- what the cyclic collector sees: collector.pyx has the story

   Free-threaded builds have no generations that hiding could save work in, and from 3.14 on there are no full collections that
   would find what is hidden. */

#if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030E0000
#define RP_HIDES 0
#define rp_hide(thing) ((void)0)
#define rp_show(thing) ((void)0)
#else
#define RP_HIDES 1
#define rp_hide(thing) PyObject_GC_UnTrack(thing)
static inline void rp_show(PyObject *thing)
{
    if (PyObject_IS_GC(thing) && !PyObject_GC_IsTracked(thing))
        PyObject_GC_Track(thing);
}
#endif

/* ---- a look-up that holds what it found, whatever other threads take out of the dict */

static inline PyObject *rp_look_up(PyObject *mapping, PyObject *key)
{
    PyObject *found;
#if PY_VERSION_HEX >= 0x030D0000
    if (PyDict_GetItemRef(mapping, key, &found) < 0)
        return NULL;
#else
    found = PyDict_GetItemWithError(mapping, key);
    if (found == NULL && PyErr_Occurred())
        return NULL;
    Py_XINCREF(found);
#endif
    return found == NULL ? Py_NewRef(Py_None) : found;
}

/* ---- time: the clock of time.monotonic_ns, without its call and its int */

static inline long long rp_monotonic_ns(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyTime_t now;
    (void)PyTime_MonotonicRaw(&now);
    return (long long)now;
#else
    return (long long)_PyTime_GetMonotonicClock();
#endif
}

/* Of times that are not negative. */
#define rp_floor_ms(ns) ((ns) / 1000000)
#define rp_ceil_ms(ns) (((ns) + 999999) / 1000000)

/* Of seconds that 64 bits of milliseconds can hold. */
#define rp_whole_ms(seconds) ((long long)((seconds) * 1000))

/* ---- threads: stacks are apart by pages at least, so what 32 bits keep of an address tells them apart */

#define rp_thread_mark() ((unsigned int)(PyThread_get_thread_ident() >> 12))

/* ---- how many checks a thread is inside of, and whether it has postponed any; these belong to the module that includes this, so only
   one module may use them: purgatory */

#if defined(_MSC_VER)
#define RP_THREAD_LOCAL static __declspec(thread)
#else
#define RP_THREAD_LOCAL static __thread
#endif
RP_THREAD_LOCAL int rp_depth;
RP_THREAD_LOCAL int rp_postponed;
#define rp_set_postponed(value) ((void)(rp_postponed = (value)))
#define rp_deeper() (++rp_depth)
#define rp_shallower() ((void)--rp_depth)

/* ---- whole numbers */

#define RP_LIMIT ((1LL << 62) - 1)
#define RP_MAX_DELAY_MS (10000 * 31557600000LL)

static inline long long rp_clamp(PyObject *number)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow > 0 || value > RP_LIMIT)
        return RP_LIMIT;
    if (overflow < 0 || value < -RP_LIMIT)
        return -RP_LIMIT;
    return value;
}

static inline int rp_bit_length(long long number)
{
    int bits = 0;
    while (number > 0) {
        bits++;
        number >>= 1;
    }
    return bits;
}

#endif
