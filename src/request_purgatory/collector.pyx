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
"""

from cpython.object cimport PyObject, PyTypeObject, traverseproc, visitproc

from request_purgatory.timer.bucket cimport Bucket
from request_purgatory.timer.task cimport TimerHandle, TimerTask
from request_purgatory.watch cimport Watch, WatcherList
from request_purgatory.watchers cimport WatcherLists

cdef extern from "Python.h":
    int PyDict_Next(PyObject *mapping, Py_ssize_t *position, PyObject **key, PyObject **value) noexcept
    Py_ssize_t Py_REFCNT(PyObject *thing) noexcept
    int PyObject_TypeCheck(PyObject *thing, PyTypeObject *kind) noexcept

cdef traverseproc traverse_bucket = (<PyTypeObject *> Bucket).tp_traverse
cdef traverseproc traverse_shard = (<PyTypeObject *> WatcherLists).tp_traverse

# Only borrowed pointers from here on: while the collector counts, no reference count may change, not even for a moment.


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
        # A handle has two references from the list: from both sides, or from its end. With more, somebody else has it, and what it
        # refers to is not the bucket's alone: not visited, it counts as needed.
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
