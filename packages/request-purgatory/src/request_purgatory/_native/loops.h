/* Quick looks at an event loop; loops.py has their meaning. */
#ifndef REQUEST_PURGATORY_LOOPS_H
#define REQUEST_PURGATORY_LOOPS_H

#include <Python.h>

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
