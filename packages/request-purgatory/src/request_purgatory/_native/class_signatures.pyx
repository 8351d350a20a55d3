"""Gives the compiled public classes the signatures of their constructors. Compiled build only.

Importing this module does so. Cython embeds signatures in the docstrings of methods, where CPython
finds them (`__text_signature__`), but none in those of classes. So this module copies the signature
of each class's `__init__` to the start of the C docstring of the class.
"""

from cpython.object cimport PyTypeObject

from request_purgatory.clock import Clock, ManualClock, MonotonicClock
from request_purgatory.purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.task import TimerHandle, TimerTask
from request_purgatory.timer.timer import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, SystemTimer

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_doc
    ctypedef struct MethodDescriptor "PyMethodDescrObject":
        PyMethodDef *d_method

_DEFAULTS = {"DEFAULT_TICK_MS": DEFAULT_TICK_MS, "DEFAULT_WHEEL_SIZE": DEFAULT_WHEEL_SIZE}

#: The docstrings, to which the classes and methods refer without a reference count.
cdef list _docs = []


def _add_signature(kind):
    text = "()"
    if kind.__init__ is not object.__init__:
        text = kind.__init__.__text_signature__.replace("($self, ", "(").replace("($self)", "()")
    cdef bytes doc = f"{kind.__name__}{text}\n--\n\n{kind.__doc__}".encode()
    _docs.append(doc)
    (<PyTypeObject *> kind).tp_doc = doc


for _kind in (
    Clock,
    DelayedOperation,
    DelayedOperationPurgatory,
    LegacyPurgatory,
    ManualClock,
    MonotonicClock,
    SystemTimer,
    TimerHandle,
    TimerTask,
):
    _add_signature(_kind)
