"""Shows the cyclic collector what the core's untracked objects refer to. Only in the compiled build; imported for what it does.

A million tracked handles cost more in the collector's passes than all the timer's work, so tasks, watches and watcher lists are
not tracked: the collector does not know them. But what a handle's callback or an operation refers to may lead back to the timer or
the purgatory, and when the program drops such a ring, nobody else would find it. So the two tracked objects that own the untracked
ones answer for them: a bucket visits what its tasks refer to, a shard what its lists and watches refer to. Each visit stands for one
reference that exists.

    timer -> wheel -> bucket ==> task -> its bucket, its callback and arguments
    purgatory -> shard ==> watcher list ==> watch -> operation

The finalizers of timer and purgatory (`__del__`) take such a ring apart. An operation that is an instance of a Python class is
tracked by itself, with what that class adds; what its C part links it to is visited here.

A pending operation that is tracked is looked at again and again: as a young object, once more as an older one, and in every full
collection from then on. A purgatory on a `SystemTimer` spares it the first two: from the time when it waits until it leaves the
purgatory, the operation is hidden (not tracked) between full collections. What it refers to counts as needed meanwhile. Before each
full collection, `gc.collect()` among them, all that are hidden are tracked again, and hidden again after it. So nothing that a full
collection could find is ever missed. Operations that have ended and wait for a purge are found in `Unpurged`, the others in buckets.
"""

import gc
import weakref

from cpython.object cimport PyObject, PyTypeObject, traverseproc, visitproc

from request_purgatory._native cimport primitives, states
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.purgatory cimport DelayedOperationPurgatory
from request_purgatory.timer.bucket cimport Bucket
from request_purgatory.timer.task cimport TimerHandle, TimerTask
from request_purgatory.timer.timer cimport SystemTimer
from request_purgatory.timer.wheel cimport TimingWheel
from request_purgatory.purgatory.watch cimport Watch, WatcherList
from request_purgatory.purgatory.watch_table cimport WatcherLists

cdef extern from "Python.h":
    int PyDict_Next(PyObject *mapping, Py_ssize_t *position, PyObject **key, PyObject **value) noexcept
    Py_ssize_t Py_REFCNT(PyObject *thing) noexcept
    int PyObject_TypeCheck(PyObject *thing, PyTypeObject *kind) noexcept

cdef traverseproc traverse_bucket = (<PyTypeObject *> Bucket).tp_traverse
cdef traverseproc traverse_shard = (<PyTypeObject *> WatcherLists).tp_traverse

# Only borrowed pointers from here on: while the collector counts, no reference count may change,
# not even for a moment.


cdef int visit_if_any(PyObject *thing, visitproc visit, void *arg) noexcept:
    return visit(thing, arg) if thing != NULL else 0


cdef int visit_tasks(PyObject *bucket, visitproc visit, void *arg) noexcept:
    cdef PyObject *task
    cdef int stop = traverse_bucket(bucket, visit, arg) if traverse_bucket != NULL else 0
    if stop:
        return stop
    task = <PyObject *> (<Bucket> bucket).head
    while task != NULL and task != <PyObject *> None:
        stop = visit(bucket, arg)
        if task.ob_type != <PyTypeObject *> TimerHandle:  # A plain handle is not tracked: nothing would come of a visit.
            # Twice: the list has two references to each task, from both sides or from its ends.
            if not stop:
                stop = visit(task, arg)
            if not stop:
                stop = visit(task, arg)
        # A handle has two references from the list: from both sides, or from its end. With more,
        # somebody else has it, and what it refers to is not the bucket's alone: not visited, it
        # counts as needed.
        if not stop and Py_REFCNT(task) <= 2 and PyObject_TypeCheck(task, <PyTypeObject *> TimerHandle):
            stop = visit_if_any(<PyObject *> (<TimerHandle> task)._callback, visit, arg)
            if not stop:
                stop = visit_if_any(<PyObject *> (<TimerHandle> task)._args, visit, arg)
        if stop:
            return stop
        task = <PyObject *> (<TimerTask> task)._next
    return 0


cdef int visit_watches(PyObject *shard, visitproc visit, void *arg) noexcept:
    cdef Py_ssize_t position = 0
    cdef PyObject *key
    cdef PyObject *watchers
    cdef PyObject *watch
    cdef PyObject *lists = <PyObject *> (<WatcherLists> shard)._lists
    cdef int stop = traverse_shard(shard, visit, arg) if traverse_shard != NULL else 0
    if stop or lists == NULL or lists == <PyObject *> None:
        return stop
    while PyDict_Next(lists, &position, &key, &watchers):
        stop = visit_if_any(<PyObject *> (<WatcherList> watchers).key, visit, arg)
        watch = <PyObject *> (<WatcherList> watchers).head
        while not stop and watch != NULL and watch != <PyObject *> None:
            stop = visit_if_any(<PyObject *> (<Watch> watch).operation, visit, arg)
            watch = <PyObject *> (<Watch> watch)._next
        if stop:
            return stop
    return 0


(<PyTypeObject *> Bucket).tp_traverse = <traverseproc> visit_tasks
(<PyTypeObject *> WatcherLists).tp_traverse = <traverseproc> visit_watches


# -- hidden operations

#: Weak references to the purgatories that hide their operations.
cdef set _hiding = set()


def show_at_full_collections(DelayedOperationPurgatory purgatory):
    """Track the purgatory's hidden operations during full collections, for as long as it exists."""
    be_called()
    _hiding.add(weakref.ref(purgatory, _hiding.discard))


def be_called():
    """Be told of collections, also when another program has emptied `gc.callbacks`: purges ask for it."""
    if _around_collections not in gc.callbacks:  # Somebody may have cleared the list.
        gc.callbacks.append(_around_collections)


def _around_collections(phase, info):
    # Called while no lock of the core is held: nothing is made under one that could start a
    # collection.
    if info["generation"] < 2:
        return
    cdef DelayedOperationPurgatory purgatory
    for reference in list(_hiding):
        purgatory = reference()
        if purgatory is not None:
            if phase == "start":
                show_all(purgatory)
            else:
                hide_all(purgatory)
    if not _hiding and _around_collections in gc.callbacks:
        gc.callbacks.remove(_around_collections)


cdef void show_all(DelayedOperationPurgatory purgatory):
    cdef Bucket bucket
    cdef TimerTask task
    for bucket in purgatory._wheel_timer._buckets():
        task = bucket.head
        while task is not None:
            primitives.show(task)
            task = task._next
    for task in purgatory._unpurged._operations:
        primitives.show(task)


cdef void hide_all(DelayedOperationPurgatory purgatory):
    cdef Bucket bucket
    cdef TimerTask task
    cdef DelayedOperation operation
    for bucket in purgatory._wheel_timer._buckets():
        task = bucket.head
        while task is not None:
            if isinstance(task, DelayedOperation):
                operation = <DelayedOperation> task
                if operation._purgatory is purgatory and operation._state == states.PENDING:
                    primitives.hide(operation)
            task = task._next
    for task in purgatory._unpurged._operations:
        primitives.hide(task)
