/* Which event loop runs on this thread; loops.py says why. */
#ifndef REQUEST_PURGATORY_LOOPS_H
#define REQUEST_PURGATORY_LOOPS_H

#include <Python.h>

/* As `asyncio._get_running_loop() is loop`. */
static int rp_ask_asyncio(PyObject *loop)
{
    static PyObject *ask = NULL;
    PyObject *running;
    if (ask == NULL) {
        PyObject *module = PyImport_ImportModule("asyncio");
        PyObject *found = module == NULL ? NULL : PyObject_GetAttrString(module, "_get_running_loop");
        Py_XDECREF(module);
        if (found == NULL)
            return -1;
        ask = found;
    }
    running = PyObject_CallNoArgs(ask);
    if (running == NULL)
        return -1;
    Py_DECREF(running);
    return running == loop;
}

#if PY_VERSION_HEX < 0x030C0000

/* CPython 3.11's function asks the system for the process at each call. The fields of what it looks at
   are at the places that they have in that version. */
typedef struct {
    PyObject_HEAD
    PyObject *loop;
} rp_running_loop;

static inline int rp_runs_here(PyObject *loop)
{
    static PyTypeObject *known = NULL;
    static PyObject *name = NULL;
    PyObject *fields = PyThreadState_GetDict();
    PyObject *holder;
    if (name == NULL)
        name = PyUnicode_InternFromString("__asyncio_running_event_loop__");
    if (fields == NULL || name == NULL) {
        PyErr_Clear();
        return rp_ask_asyncio(loop);
    }
    holder = PyDict_GetItemWithError(fields, name);
    if (holder == NULL || Py_TYPE(holder) != known) {
        if (holder == NULL || strcmp(Py_TYPE(holder)->tp_name, "_RunningLoopHolder") != 0)
            return rp_ask_asyncio(loop);
        known = Py_TYPE(holder);
    }
    return ((rp_running_loop *)holder)->loop == loop;
}

#else
#define rp_runs_here rp_ask_asyncio
#endif

/* True if `target.name(...)` calls `function`, a function of Python, as a method; -1 if there is none. */
static inline int rp_has_method(PyObject *target, PyObject *name, PyObject *function)
{
    PyObject *found = NULL;
    int has;
#if PY_VERSION_HEX < 0x030D0000
    /* Makes no object for the method. */
    if (_PyObject_GetMethod(target, name, &found))
        has = found == function;
    else
#else
    found = PyObject_GetAttr(target, name);
#endif
        has = found == NULL ? -1 : PyMethod_Check(found) && PyMethod_GET_FUNCTION(found) == function;
    Py_XDECREF(found);
    return has;
}

#endif
