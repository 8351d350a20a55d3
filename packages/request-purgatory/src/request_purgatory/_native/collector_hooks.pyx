"""Integrates the core's untracked objects with the cyclic collector. Compiled build only.

Importing this module installs the hooks. The cyclic collector does not track timer tasks and
watcher lists: its passes over a million tracked handles would cost more than all of the timer's
work. But a handle's callback or an operation may refer back to the timer or the purgatory. When the
program drops such a cycle, the collector has to find it. So the two tracked objects that own the
untracked ones visit references on their behalf. A bucket visits what its tasks refer to; a shard
visits what its lists refer to. Each visit stands for one reference that exists.

    timer -> wheel -> bucket ==> task -> its callback and arguments
    purgatory -> shard ==> watcher list ==> operation

A collection passes over what a running thread or loop refers to (`hiding.pyx`): nothing is visited.

The finalizers of timer and purgatory (`__del__`) break such a cycle. An operation of a Python class
is tracked itself, with the attributes that this class adds. Its C fields are visited here.
"""

from cpython.object cimport PyObject, PyTypeObject, traverseproc, visitproc

from request_purgatory._native.linked_list cimport LIST_OFFSET, NODE_OFFSET, Node, owner_of
from request_purgatory.timer._bucket cimport Bucket
from request_purgatory.timer.task cimport TimerHandle, TimerTask
from request_purgatory.purgatory.watch_table cimport WatcherList, WatchShard, operation_at

cdef extern from "Python.h":
    int PyDict_Next(
        PyObject *mapping, Py_ssize_t *position, PyObject **key, PyObject **value
    ) noexcept
    Py_ssize_t Py_REFCNT(PyObject *target) noexcept
    int PyObject_TypeCheck(PyObject *target, PyTypeObject *kind) noexcept

cdef traverseproc traverse_bucket = (<PyTypeObject *> Bucket).tp_traverse
cdef traverseproc traverse_shard = (<PyTypeObject *> WatchShard).tp_traverse

# The visitors use borrowed pointers only: no reference count may change while the collector counts
# references, not even for a moment.


cdef int visit_if_any(PyObject *target, visitproc visit, void *arg) noexcept:
    return visit(target, arg) if target != NULL else 0


cdef int visit_tasks(PyObject *bucket, visitproc visit, void *arg) noexcept:
    cdef PyObject *task
    cdef Node *node = NULL
    cdef int stop = traverse_bucket(bucket, visit, arg) if traverse_bucket != NULL else 0
    # NULL where the collector has taken the bucket apart.
    if <PyObject *> (<Bucket> bucket).pending == NULL or not (<Bucket> bucket).pending.passed_over:
        node = (<Bucket> bucket)._nodes.head
    while node != NULL and not stop:
        task = owner_of(node)
        # A TimerHandle itself is not tracked, so a visit would have no effect.
        if task.ob_type != <PyTypeObject *> TimerHandle:
            stop = visit(task, arg)
        # The list has one reference to a handle. With more, the program has the handle, too, and
        # its callback is not reachable from the bucket only: it is not visited, and so counts as
        # reachable.
        if (
            not stop
            and Py_REFCNT(task) <= 1
            and PyObject_TypeCheck(task, <PyTypeObject *> TimerHandle)
        ):
            stop = visit_if_any(<PyObject *> (<TimerHandle> task).callback, visit, arg)
            if not stop:
                stop = visit_if_any(<PyObject *> (<TimerHandle> task).args, visit, arg)
        node = node.next
    return stop


cdef int visit_watches(PyObject *shard, visitproc visit, void *arg) noexcept:
    cdef Py_ssize_t position = 0
    cdef PyObject *key
    cdef PyObject *watchers
    cdef Node *node
    cdef PyObject *lists = <PyObject *> (<WatchShard> shard)._lists
    cdef int stop = traverse_shard(shard, visit, arg) if traverse_shard != NULL else 0
    if stop or lists == NULL or lists == <PyObject *> None or (<WatchShard> shard).passed_over:
        return stop
    while PyDict_Next(lists, &position, &key, &watchers):
        stop = visit_if_any(<PyObject *> (<WatcherList> watchers).key, visit, arg)
        node = (<WatcherList> watchers).nodes.head
        while not stop and node != NULL:
            stop = visit(operation_at(node), arg)
            node = node.next
        if stop:
            return stop
    return 0


cdef check_layout():
    """Raise ImportError unless tasks and buckets begin as `linked_list.h` expects."""
    cdef TimerTask task = TimerTask.__new__(TimerTask)
    cdef Bucket bucket = Bucket.__new__(Bucket, None)
    if (
        <char *> &task._node - <char *> <PyObject *> task != NODE_OFFSET
        or <char *> &bucket._nodes - <char *> <PyObject *> bucket != LIST_OFFSET
    ):
        raise ImportError("request_purgatory was compiled with another layout of its classes")


check_layout()

(<PyTypeObject *> Bucket).tp_traverse = <traverseproc> visit_tasks
(<PyTypeObject *> WatchShard).tp_traverse = <traverseproc> visit_watches

