/* Taking an object off the cyclic collector's lists, and putting it back; hiding.pyx says why.

   Free-threaded builds have no generations, so hiding would save no work there. From 3.14.0 to 3.14.4
   no automatic collection is a full one, which would show the objects again. 3.14.5 went back to
   generations (python/cpython#148726). One module serves all of 3.14, so it looks when it runs. */
#ifndef REQUEST_PURGATORY_HIDING_H
#define REQUEST_PURGATORY_HIDING_H

#include <Python.h>

#ifdef Py_GIL_DISABLED
#define RP_FREE_THREADED 1
#define RP_HIDES 0
#define rp_hide(operation) ((void)0)
#define rp_show(operation) ((void)0)
#else
#define RP_FREE_THREADED 0
#define RP_HIDES (Py_Version < 0x030E0000 || Py_Version >= 0x030E0500)
static inline void rp_hide(PyObject *operation)
{
    if (PyType_IS_GC(Py_TYPE(operation)))
        PyObject_GC_UnTrack(operation);
}
static inline void rp_show(PyObject *operation)
{
    if (PyType_IS_GC(Py_TYPE(operation)) && !PyObject_GC_IsTracked(operation))
        PyObject_GC_Track(operation);
}
#endif

#endif
