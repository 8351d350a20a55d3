"""Gives the compiled public classes the signatures of their constructors. Compiled build only.

Importing this module does so. Cython embeds signatures in the docstrings of methods, where CPython
finds them (`__text_signature__`), but none in those of classes. So this module copies the signature
of each class's `__init__` to the start of the C docstring of the class. Methods that are described
in `HoldsRequests` get their docstrings here, too.
"""

from cpython.object cimport PyTypeObject

from request_purgatory.clock import Clock, ManualClock, MonotonicClock
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory.holds_requests import DOCSTRINGS
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
        # A default that is a constant of another module, which `inspect` would not find.
        for name, value in _DEFAULTS.items():
            text = text.replace(name, str(value))
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


def _document(kind):
    cdef bytes doc
    for name, docstring in DOCSTRINGS.items():
        if name in vars(kind):
            method = vars(kind)[name]
            doc = f"{name}{method.__text_signature__}\n--\n\n{docstring}".encode()
            _docs.append(doc)
            (<MethodDescriptor *> <void *> method).d_method.ml_doc = doc


_document(PurgatoryCore)
_document(DelayedOperationPurgatory)
