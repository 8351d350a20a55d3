# Compiled, the functions of loops.py are inlined where they are used.

from cpython.object cimport PyObject_Call

cdef extern from "loops.h":
    bint rp_runs_here(object loop) except -1
    bint rp_has_method(object target, object name, object function) except -1


cdef inline object call_with(object kind, dict named):
    return PyObject_Call(kind, (), named)


cdef inline bint runs_here(object loop) except -1:
    return rp_runs_here(loop)


cdef inline bint has_method(object target, object name, object function) except -1:
    return rp_has_method(target, name, function)
