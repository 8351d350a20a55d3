"""Gives the compiled public classes the signatures of their constructors. Compiled build only.

Importing this module does so. Cython embeds signatures in the docstrings of methods, where CPython
finds them (`__text_signature__`), but none in those of classes. So this module copies the signature
of each class's `__init__` to the start of the C docstring of the class. Methods that are described
in `HoldsRequests` get their docstrings here, too.

A CPython that was built without docstrings has no signatures either; nothing is changed there.
"""

from cpython.object cimport PyTypeObject

from request_purgatory.clock import Clock, ManualClock, MonotonicClock
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory._holds_requests import DOCSTRINGS
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.task import TimerHandle, TimerTask
from request_purgatory.timer.timer import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, SystemTimer

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_doc
    ctypedef struct MethodDescriptor "PyMethodDescrObject":
        PyMethodDef *d_method
    ctypedef struct WrapperBase "struct wrapperbase":
        const char *doc
    ctypedef struct WrapperDescriptor "PyWrapperDescrObject":
        WrapperBase *d_base

#: The docstrings, to which the classes and methods refer without a reference count.
cdef list _docs = []


def _fill_in_defaults(kind):
    """Replace the names of constants, which `inspect` does not look up for `__init__`."""
    cdef WrapperDescriptor *init = <WrapperDescriptor *> <void *> kind.__init__
    cdef bytes doc = init.d_base.doc
    doc = doc.replace(b"=DEFAULT_TICK_MS", b"=%d" % DEFAULT_TICK_MS)
    doc = doc.replace(b"=DEFAULT_WHEEL_SIZE", b"=%d" % DEFAULT_WHEEL_SIZE)
    _docs.append(doc)
    init.d_base.doc = doc


def _add_signature(kind):
    text = "()"
    if kind.__init__ is not object.__init__:
        text = kind.__init__.__text_signature__
        if text is None:
            return
        text = text.replace("($self, ", "(").replace("($self)", "()")
    cdef bytes doc = f"{kind.__name__}{text}\n--\n\n{kind.__doc__}".encode()
    _docs.append(doc)
    (<PyTypeObject *> kind).tp_doc = doc


_fill_in_defaults(PurgatoryCore)
_fill_in_defaults(SystemTimer)
for _kind in (
    Clock,
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    MonotonicClock,
    SystemTimer,
    TimerHandle,
    TimerTask,
):
    _add_signature(_kind)


def document(kind):
    """As `documented`, of a class of C."""
    cdef bytes doc
    for name, docstring in DOCSTRINGS.items():
        method = vars(kind).get(name)
        # With `python -OO`, what describes it has no docstring.
        if method is not None and method.__text_signature__ is not None and docstring is not None:
            doc = f"{name}{method.__text_signature__}\n--\n\n{docstring}".encode()
            _docs.append(doc)
            (<MethodDescriptor *> <void *> method).d_method.ml_doc = doc


document(PurgatoryCore)
document(DelayedOperationPurgatory)
