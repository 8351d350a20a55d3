"""Makes objects of operation classes without the detours of a call of a type. Compiled build only.

`Request(500)` packs its arguments into a tuple, and the core's `__init__` unpacks it. A class may
have a function for calls without a tuple (`tp_vectorcall`), which CPython does not hand on to
subclasses. So `DelayedOperation.__init__` gives it to the class of the first object. The function
looks at every call whether the class has the core's own `__init__` and `__new__`, and else does as
CPython does.
"""

from cpython.object cimport PyObject, newfunc

from request_purgatory._native cimport primitives
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.timer.task cimport whole_ms

cdef extern from "Python.h":
    ctypedef object (*ternary)(PyObject *, PyObject *, PyObject *)
    ctypedef object (*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *)
    ctypedef struct Type "PyTypeObject":
        newfunc tp_new
        void *tp_init
        ternary tp_call
        vectorcall tp_vectorcall
    Type PyType_Type
    Py_ssize_t PyVectorcall_NARGS(size_t count) noexcept
    bint PyLong_CheckExact(PyObject *target) noexcept

cdef newfunc core_new = (<Type *> DelayedOperation).tp_new
cdef void *core_init = (<Type *> DelayedOperation).tp_init
cdef tuple no_arguments = ()


cdef object make(PyObject *kind, PyObject *const *arguments, size_t count, PyObject *names):
    cdef DelayedOperation made
    if (
        PyVectorcall_NARGS(count) == 1
        and names == NULL
        and PyLong_CheckExact(arguments[0])
        and (<Type *> kind).tp_init == core_init
        and (<Type *> kind).tp_new == core_new
    ):
        made = <DelayedOperation> core_new(<type> kind, <PyObject *> no_arguments, NULL)
        # As `_init_task`, without its calls.
        made._timer_delay_ms = primitives.clamp(<object> arguments[0])
        if made._timer_delay_ms > primitives.MAX_DELAY_MS:
            whole_ms("timeout_ms", <object> arguments[0])
        made._timer_expiration_ms = -1
        return made
    return make_as_cpython(kind, arguments, PyVectorcall_NARGS(count), names)


cdef object make_as_cpython(
    PyObject *kind, PyObject *const *arguments, Py_ssize_t count, PyObject *names
):
    cdef list positional = [<object> arguments[index] for index in range(count)]
    cdef tuple packed = tuple(positional)
    cdef dict named = None
    if names != NULL:
        named = {
            name: <object> arguments[count + index] for index, name in enumerate(<tuple> names)
        }
    return PyType_Type.tp_call(
        kind, <PyObject *> packed, NULL if named is None else <PyObject *> named
    )


def construct_quickly(kind):
    """Give a class, whatever its metaclass, the quick way to make its objects.

    CPython takes it only where the metaclass makes objects as `type` does.
    """
    (<Type *> kind).tp_vectorcall = make
