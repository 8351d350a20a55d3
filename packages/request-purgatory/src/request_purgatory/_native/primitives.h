/* Locks, time and whole numbers for the compiled core. Each compiled module that uses them includes
   this file. */
#ifndef REQUEST_PURGATORY_NATIVE_H
#define REQUEST_PURGATORY_NATIVE_H

#include <Python.h>
#include <math.h>

#ifdef REQUEST_PURGATORY_ASSERT
#include "planted.h"
#else
#define rp_plant() ((void)0)
#endif

/* ---- locks

   While a thread holds the GIL, code that makes no calls can't be interrupted. So a flag is enough
   as a lock: one load and two stores, instead of two atomic operations or of calls into Python. A
   thread finds the flag set only if its holder released the GIL. That happens when a watch key's own
   __hash__ or __eq__ runs Python code inside a dict. Then the thread waits for the flag. */

#ifdef Py_GIL_DISABLED

/* With a cache line of its own, which threads that use a neighbour would have to wait for otherwise. */
typedef struct {
    PyMutex mutex;
    char padding[64 - sizeof(PyMutex)];
} rp_lock;

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define rp_pause() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define rp_pause() __asm__ __volatile__("isb")
#else
#define rp_pause() ((void)0)
#endif

/* A lock is held for a few loads and stores. PyMutex_Lock yields to the system's scheduler where it
   finds one held, which takes longer than that: so look for a while first. */
static inline void rp_mutex_lock(PyMutex *mutex)
{
    int looks = 100;
    while (_Py_atomic_load_uint8_relaxed(&mutex->_bits) != 0 && --looks > 0)
        rp_pause();
    PyMutex_Lock(mutex);
}

#define rp_lock_acquire(lock) (rp_plant(), rp_mutex_lock(&(lock)->mutex))
#define rp_lock_release(lock) PyMutex_Unlock(&(lock)->mutex)

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
        Py_FatalError("request_purgatory: released a lock that is not held");
#endif
    lock->held = 0;
}

#endif

/* The lock of an object's own fields. Nothing is called under it, so the GIL is enough where there
   is one. Otherwise objects share 64 mutexes. These belong to the module that includes this file, so
   only one module may lock objects: operation. */

#ifdef Py_GIL_DISABLED
static rp_lock rp_object_locks[64];
#define rp_object_lock(target) (&rp_object_locks[((size_t)(target) >> 5) & 63].mutex)
#define rp_lock_object(target) rp_mutex_lock(rp_object_lock(target))
#define rp_unlock_object(target) PyMutex_Unlock(rp_object_lock(target))
#else
#define rp_lock_object(target) ((void)0)
#define rp_unlock_object(target) ((void)0)
#endif

/* ---- the interpreter lock, which only Python code gives up by itself

   For as long as a thread that waits for it needs to wake up: else this one has it again. */

#ifdef Py_GIL_DISABLED
#define rp_let_others_run() ((void)0)
#else
static inline void rp_let_others_run(void)
{
    Py_BEGIN_ALLOW_THREADS
    rp_nap();
    Py_END_ALLOW_THREADS
}
#endif

/* ---- forks

   With the GIL, no change is half done when another thread forks. Without it, the module that locks
   objects has to reset their mutexes in the child. */

#ifdef Py_GIL_DISABLED
#define RP_FORKS_HOLD_LOCKS 1
#define rp_reinit_locks() ((void)memset(rp_object_locks, 0, sizeof rp_object_locks))
#else
#define RP_FORKS_HOLD_LOCKS 0
#define rp_reinit_locks() ((void)0)
#endif

/* ---- a dict look-up that returns a strong reference, safe against threads that change the dict */

static inline PyObject *rp_dict_get(PyObject *mapping, PyObject *key)
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

/* The same, as a borrowed reference to what the dict has under the key then; NULL where the key raises. */
static inline PyObject *rp_dict_setdefault(PyObject *mapping, PyObject *key, PyObject *value)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found;
    if (PyDict_SetDefaultRef(mapping, key, value, &found) < 0)
        return NULL;
    Py_DECREF(found); /* the caller has the lock without which the dict does not change */
    return found;
#else
    return PyDict_SetDefault(mapping, key, value);
#endif
}

static inline PyObject *rp_dict_replace(PyObject *mapping, PyObject *key, PyObject *value)
{
    return PyDict_SetItem(mapping, key, value) < 0 ? NULL : value;
}

/* The value, which the caller owns then; None without one, and NULL where the key raises. */
static inline PyObject *rp_dict_pop(PyObject *mapping, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found;
    int had = PyDict_Pop(mapping, key, &found);
    return had < 0 ? NULL : had > 0 ? found : Py_NewRef(Py_None);
#else
    return _PyDict_Pop(mapping, key, Py_None);
#endif
}

/* True if there are references besides that of one variable. On free threads there is no cheap answer. */
#ifdef Py_GIL_DISABLED
#define RP_HOLDS_GIL 0
#define rp_is_shared(target) 1
#else
#define RP_HOLDS_GIL 1
#define rp_is_shared(target) (Py_REFCNT(target) > 1)
#endif

/* ---- classes whose objects construction.pyx could make */

#define rp_is_made_slowly(target) \
    (Py_TYPE(target)->tp_vectorcall == NULL && PyType_HasFeature(Py_TYPE(target), Py_TPFLAGS_HEAPTYPE))

/* ---- calls of the methods that users write

   CPython looks a method up by its name at every call. While a class does not change, neither does its
   version tag, nor what the look-up finds: it is remembered for some classes. Objects with a `__dict__`
   are looked at every time, as an attribute there may hide the method.

   Each module that includes this file has tables of its own. */

typedef struct {
    PyTypeObject *type;
    unsigned int version;
    PyObject *function; /* borrowed: the class keeps it while its version stays */
} rp_method;

#define RP_METHODS 16

static PyObject *rp_find_and_call(PyObject *target, rp_method *known, PyObject *name)
{
#if !defined(Py_GIL_DISABLED) && defined(Py_TPFLAGS_MANAGED_DICT)
    PyTypeObject *type = Py_TYPE(target);
#endif
#if !defined(Py_GIL_DISABLED) && defined(Py_TPFLAGS_MANAGED_DICT)
    if (type->tp_dictoffset == 0 && !PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT)
        && type->tp_getattro == PyObject_GenericGetAttr) {
        PyObject *function = _PyType_Lookup(type, name);
        int versioned = type->tp_version_tag != 0;
#if PY_VERSION_HEX < 0x030D0000
        versioned = versioned && PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
#endif
        if (versioned && function != NULL
            && PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_METHOD_DESCRIPTOR)
            && PyVectorcall_Function(function) != NULL) {
            known->type = type;
            known->version = type->tp_version_tag;
            known->function = function;
        }
    }
#endif
    return PyObject_VectorcallMethod(name, &target, 1, NULL);
}

static inline PyObject *rp_call_method(PyObject *target, rp_method *table, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(target);
    rp_method *known = &table[((size_t)type >> 5) % RP_METHODS];
    vectorcallfunc call;
    PyObject *function, *result;
    /* The tag of a class that changed is 0, which is never in the table. */
    if (known->type != type || known->version != type->tp_version_tag)
        return rp_find_and_call(target, known, name);
    function = Py_NewRef(known->function);
    /* As PyObject_Vectorcall, without its look at the kind of callable and at the result. */
    call = *(vectorcallfunc *)((char *)function + Py_TYPE(function)->tp_vectorcall_offset);
    result = call(function, &target, 1, NULL);
    Py_DECREF(function);
    return result;
}

#define RP_METHOD(method) \
    static inline PyObject *rp_call_##method(PyObject *target, PyObject *name) \
    { \
        static rp_method table[RP_METHODS]; \
        return rp_call_method(target, table, name); \
    }

RP_METHOD(try_complete)

/* What a call raised stays the thread's current exception until `rp_take_error`, which has to be the next
   call of Python's interface. */

static inline int rp_try_complete(PyObject *target, PyObject *name)
{
    PyObject *answer = rp_call_try_complete(target, name);
    int is_true;
    if (answer == NULL)
        return -1;
    is_true = answer == Py_False ? 0 : answer == Py_True ? 1 : PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_true;
}

static inline PyObject *rp_take_error(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *error = PyErr_GetRaisedException();
#else
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
#endif
    return error != NULL ? error : Py_NewRef(Py_None);
}

RP_METHOD(on_complete)
RP_METHOD(on_expiration)
RP_METHOD(on_cancellation)
RP_METHOD(run)

/* ---- objects whose `__init__` did not run: kept out of line, so that the callers' check is a comparison */

#if defined(__GNUC__)
__attribute__((cold, noinline, unused))
#endif
static int rp_refuse_uninitialized(PyObject *target)
{
    PyObject *module = PyImport_ImportModule("request_purgatory.errors");
    PyObject *kind = module == NULL ? NULL : PyObject_GetAttrString(module, "NotInitializedError");
    PyObject *name = kind == NULL ? NULL : PyObject_GetAttrString((PyObject *)Py_TYPE(target), "__name__");
    PyObject *error = name == NULL ? NULL : PyObject_CallOneArg(kind, name);
    if (error != NULL)
        PyErr_SetObject(kind, error);
    Py_XDECREF(error);
    Py_XDECREF(name);
    Py_XDECREF(kind);
    Py_XDECREF(module);
    return -1;
}

/* ---- time: the clock of time.monotonic_ns, without its Python call and int */

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

/* For times that are not negative. */
#define rp_floor_ms(ns) ((ns) / 1000000)
#define rp_ceil_ms(ns) (((ns) + 999999) / 1000000)

/* For seconds whose milliseconds, or nanoseconds, fit 64 bits. */
#define rp_seconds_to_ms(seconds) ((long long)((seconds) * 1000))
#define rp_ceil_to_ms(seconds) ((long long)ceil((seconds) * 1000 - 0.0005))
#define rp_round_to_ns(seconds) ((long long)rint((seconds) * 1e6) * 1000)

/* ---- threads: idents are addresses at least a page apart, so 32 bits of them differ */

#define rp_thread_tag() ((unsigned int)(PyThread_get_thread_ident() >> 12))

/* ---- stripes: what threads count side by side, so that none waits for another one's cache line

   The variables belong to the module that includes this file; only one module may use them: _counters. */

#if defined(_MSC_VER)
#define RP_THREAD_LOCAL static __declspec(thread)
#else
#define RP_THREAD_LOCAL static __thread
#endif

#ifdef Py_GIL_DISABLED
#define RP_STRIPES 8
RP_THREAD_LOCAL int rp_stripe; /* from 1 on; 0 while the thread has none */
static int rp_last_stripe;
static inline int rp_thread_stripe(void)
{
    if (rp_stripe == 0)
        rp_stripe = 1 + (_Py_atomic_add_int(&rp_last_stripe, 1) & (RP_STRIPES - 1));
    return rp_stripe - 1;
}
#else
#define RP_STRIPES 1
#define rp_thread_stripe() 0
#endif

/* ---- the number of nested checks on a thread, and whether it has postponed any

   These variables belong to the module that includes this file, so only one module may use them:
   purgatory. */

RP_THREAD_LOCAL int rp_depth;
RP_THREAD_LOCAL int rp_postponed;
#define rp_set_postponed(value) ((void)(rp_postponed = (value)))
#define rp_enter_check() (++rp_depth)
/* In a forked child it may be one of the parent's checks, which `rp_forget_checks` has forgotten. */
#define rp_leave_check() ((void)(rp_depth -= rp_depth > 0))
#define rp_forget_checks() ((void)(rp_depth = rp_postponed = 0))

/* ---- Python's recursion limit: near it, an end borrows levels for its callbacks

   An end is made once, so a RecursionError in the middle of it would leave those who wait without an
   answer. Only this thread's count is changed. A thread has few loans at a time: ends that cause one
   another without an end would meet the end of the stack. */

#define RP_NEEDED_LEVELS 100
#define RP_LENT_LEVELS 200
#define RP_MOST_LOANS 4

#if PY_VERSION_HEX >= 0x030C0000
#define RP_LEVELS(state) ((state)->py_recursion_remaining)
#else
#define RP_LEVELS(state) ((state)->recursion_remaining)
#endif

RP_THREAD_LOCAL int rp_loans;

static inline int rp_borrow_levels(void)
{
    PyThreadState *state = PyThreadState_Get();
    if (RP_LEVELS(state) >= RP_NEEDED_LEVELS || rp_loans == RP_MOST_LOANS)
        return 0;
    rp_loans++;
    RP_LEVELS(state) += RP_LENT_LEVELS;
    return 1;
}

static inline void rp_return_levels(int borrowed)
{
    if (borrowed) {
        rp_loans--;
        RP_LEVELS(PyThreadState_Get()) -= RP_LENT_LEVELS;
    }
}

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
