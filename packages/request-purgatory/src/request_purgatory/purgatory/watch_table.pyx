"""The watch table of the compiled build: an operation carries its places in the lists.

`watch_table.py` is the same in plain Python, explains the locking, and runs where nothing is
compiled. Here a place is a C structure in the operation's own block of memory. An operation has
three, and one further block for more keys. `_native/linked_list.h` has the rules of the links.
"""

import logging

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.string cimport memset

from request_purgatory._native cimport primitives, states
from request_purgatory._native.linked_list cimport (
    List,
    Node,
    append_node,
    get_shard,
    list_of_node,
    place_of,
    remove_node,
    set_shard,
)
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import unhashable
from request_purgatory.purgatory.operation cimport NODES_INSIDE, DelayedOperation
from request_purgatory.purgatory._operation_chain cimport OperationChain

cdef extern from "Python.h":
    # Without an exception handler: -1 is returned where the key raises.
    Py_hash_t hash_of "PyObject_Hash"(object key) noexcept
    # Macros for a list or a tuple.
    Py_ssize_t PySequence_Fast_GET_SIZE(object sequence) noexcept
    PyObject *PySequence_Fast_GET_ITEM(object sequence, Py_ssize_t index) noexcept
    int PyDict_Next(
        dict mapping, Py_ssize_t *position, PyObject **key, PyObject **value
    ) noexcept

logger = logging.getLogger(__name__)


cdef struct OutsideNode:
    # The place of each is NODES_INSIDE + 1.
    Node node
    PyObject *operation


# Where the nodes are in an operation: C has no name for the place in a class of Cython's.
cdef DelayedOperation _any = DelayedOperation.__new__(DelayedOperation)
cdef Py_ssize_t _offset = <char *> &_any._nodes[0] - <char *> <PyObject *> _any


cdef PyObject *operation_at(Node *node) noexcept:
    """Return the operation that a node is part of, as a borrowed reference."""
    cdef size_t place = place_of(node)
    if place > NODES_INSIDE:
        return (<OutsideNode *> node).operation
    return <PyObject *> (<char *> (node - (place - 1)) - _offset)


cdef inline Py_ssize_t nodes_outside(DelayedOperation operation) noexcept:
    return 0 if operation._further is None else len(operation._further) // sizeof(OutsideNode)


cdef inline OutsideNode *node_outside(DelayedOperation operation, Py_ssize_t index) noexcept:
    return &(<OutsideNode *> PyBytes_AS_STRING(operation._further))[index]


cdef Node *find_node(DelayedOperation operation, WatcherList watchers) noexcept:
    """Return a node of the operation that is in this list; NULL if there is none."""
    cdef Py_ssize_t index
    cdef Node *node
    for index in range(NODES_INSIDE):
        node = &operation._nodes[index]
        if list_of_node(node) == <PyObject *> watchers:
            return node
    for index in range(nodes_outside(operation)):
        node = &node_outside(operation, index).node
        if list_of_node(node) == <PyObject *> watchers:
            return node
    return NULL


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class WatcherList:
    """The operations that watch one key, in the order of their arrival."""

    @property
    def size(self):
        """The number of entries."""
        return self._size

    def check_invariants(self):
        """Assert that the links agree with one another and with the size."""
        cdef Py_ssize_t count = 0
        cdef Node *before = NULL
        cdef Node *node = self.nodes.head
        while node != NULL:
            assert list_of_node(node) == <PyObject *> self, "a watch is linked in a list that it does not name"
            assert node.prev == before, "a watch has a wrong link backwards"
            assert find_node(<DelayedOperation> operation_at(node), self) != NULL, (
                "a watch without an operation is linked"
            )
            before = node
            node = node.next
            count += 1
        assert self.nodes.tail == before, "the list's tail is not its last watch"
        assert self._size == count, f"the list has {count} watches but counts {self._size}"


@cython.final
cdef class WatchShard:
    """The watcher lists of the keys that hash to one shard."""

    def __init__(self, int index, errors):
        self.index = index
        self._errors = errors
        self.lock = primitives.CoreLock()
        self._lists = {}

    cdef watch(self, object key, DelayedOperation operation, Node *node, size_t place):
        cdef WatcherList watchers = primitives.dict_get(self._lists, key)
        while True:
            if watchers is None:
                watchers = self._add_list(key)
            self.lock.acquire()
            if not watchers.removed:
                break
            self.lock.release()
            watchers = None
        if watchers._size == 0:
            Py_INCREF(watchers)
        Py_INCREF(operation)
        set_shard(node, self.index)
        append_node(&watchers.nodes, <PyObject *> watchers, node, place)
        watchers._size += 1
        self._size += 1
        self.lock.release()

    cdef WatcherList _add_list(self, object key):
        cdef WatcherList made = None
        cdef WatcherList watchers
        cdef PyObject *found
        if primitives.HOLDS_GIL:
            made, self._spare = self._spare, None
            if made is not None and primitives.is_shared(made):
                made = None  # Another thread still has it.
        if made is None:
            made = WatcherList.__new__(WatcherList)
        made.key = key
        made.shard = self.index
        made.removed = False
        self.lock.acquire()
        found = primitives.dict_setdefault(self._lists, key, made)
        if found != NULL and (<WatcherList> found).removed:
            # The key's __hash__ or __eq__ raised when this list should have left the map.
            found = primitives.dict_replace(self._lists, key, made)
        watchers = None if found == NULL else <WatcherList> found
        self.lock.release()
        if watchers is None:
            raise primitives.take_error()
        return watchers

    cpdef WatcherList get(self, object key):
        return primitives.dict_get(self._lists, key)

    cpdef DelayedOperation only_operation(self, WatcherList watchers):
        """Return the operation of a list that has exactly one entry; None for any other list."""
        cdef DelayedOperation operation = None
        self.lock.acquire()
        if watchers._size == 1:
            operation = <DelayedOperation> operation_at(watchers.nodes.head)
        self.lock.release()
        return operation

    cpdef list operations_of(self, WatcherList watchers):
        cdef list operations = []
        cdef Node *node
        self.lock.acquire()
        try:
            node = watchers.nodes.head
            while node != NULL:
                operations.append(<object> operation_at(node))
                node = node.next
        finally:
            self.lock.release()
        return operations

    cpdef bint drop(self, WatcherList watchers, DelayedOperation operation) except -1:
        """Remove an operation from one of this shard's lists, and a list that is empty then."""
        cdef Node *node
        self.lock.acquire()
        node = find_node(operation, watchers)
        if node == NULL:
            self.lock.release()
            return False
        return self._unlink(watchers, node)

    cdef bint drop_node(self, Node *node) except -1:
        """Remove a node of this shard from its list; its operation is alive."""
        cdef PyObject *found
        self.lock.acquire()
        found = list_of_node(node)
        if found == NULL:
            self.lock.release()
            return False
        return self._unlink(<WatcherList> found, node)

    cdef bint _unlink(self, WatcherList watchers, Node *node) except -1:
        """Remove a node from its list, under the lock, which is released.

        The caller has a reference to the operation.
        """
        cdef object key = None
        cdef PyObject *operation = operation_at(node)
        cdef PyObject *popped
        cdef WatcherList other
        failed = None
        remove_node(&watchers.nodes, node)
        watchers._size -= 1
        self._size -= 1
        if watchers._size > 0:
            self.lock.release()
            Py_DECREF(<object> operation)
            return True
        watchers.removed = True
        # An operation that is its own key would be kept alive by a list that another thread has.
        # The key lives until the lock is released.
        key, watchers.key = watchers.key, None
        popped = primitives.dict_pop(self._lists, key)
        if popped == NULL:
            failed = primitives.take_error()
        elif popped == <PyObject *> watchers:
            if primitives.HOLDS_GIL:
                self._spare = watchers
        elif popped != <PyObject *> None:
            # The key has changed, and equals now that of another list, which stays.
            other = <WatcherList> popped
            if (
                not other.removed
                and primitives.dict_replace(self._lists, other.key, other) == NULL
            ):
                failed = primitives.take_error()
        Py_XDECREF(popped)
        self.lock.release()
        Py_DECREF(<object> operation)
        Py_DECREF(watchers)
        if failed is not None:
            if not isinstance(failed, Exception):
                raise failed
            # Raised by the key's own __hash__ or __eq__. The map keeps an empty list of the key
            # until the key is watched again or the table is emptied.
            self._errors.log(
                failed,
                "the __hash__ or __eq__ of a watch key of type %s raises: its list stays",
                type(key).__name__,
            )
        return True

    cpdef list lists(self):
        return list(self._lists.values())

    cpdef Py_ssize_t remove_all(self, OperationChain removed) except -1:
        """Empty the shard, add the operations of all lists to `removed`, and count the entries.

        For a purgatory that is closed: an operation that is watched later is removed by its caller.
        """
        cdef Py_ssize_t count = 0
        cdef WatcherList watchers
        cdef DelayedOperation operation
        cdef PyObject *found
        cdef Node *node
        cdef Py_ssize_t position
        cdef bint emptied
        while True:
            position = 0
            watchers = self._next_list(&position)
            if watchers is None:
                break
            while watchers is not None:
                while True:
                    operation = None
                    emptied = False
                    self.lock.acquire()
                    node = watchers.nodes.head
                    if node != NULL:
                        found = operation_at(node)
                        operation = <DelayedOperation> found
                        remove_node(&watchers.nodes, node)
                        watchers._size -= 1
                        self._size -= 1
                        emptied = watchers._size == 0
                    self.lock.release()
                    if operation is None:
                        break
                    Py_DECREF(operation)
                    removed.push(operation)
                    if emptied:
                        Py_DECREF(watchers)
                    count += 1
                    if count % 4000 == 0:  # Some 1 ms.
                        primitives.let_others_run()
                watchers.key = None  # As in `_unlink`; the map still has the key.
                watchers = self._next_list(&position)
        # Not key by key: a key's __hash__ may raise by now.
        self._lists.clear()
        return count

    cdef WatcherList _next_list(self, Py_ssize_t *position):
        """Return the first list after a position in the map that has entries; None at the map's end.

        Unlike a list of all lists, this needs no memory. If the map changes, look once more.
        """
        cdef WatcherList watchers = None
        cdef PyObject *key
        cdef PyObject *found
        self.lock.acquire()
        while PyDict_Next(self._lists, position, &key, &found):
            if (<WatcherList> found)._size > 0:
                watchers = <WatcherList> found
                break
        self.lock.release()
        return watchers

    @property
    def size(self):
        return self._size

    @property
    def num_keys(self):
        return len(self._lists)

    def check_invariants(self):
        cdef WatcherList watchers
        cdef Py_ssize_t size = 0
        for key, watchers in self._lists.items():
            size += watchers._size
            assert watchers._size > 0, f"the empty watcher list of {key!r} is in the map"
            assert not watchers.removed, f"the removed watcher list of {key!r} is in the map"
            watchers.check_invariants()
        assert self._size == size, f"the lists have {size} entries but {self._size} are counted"


@cython.final
cdef class WatchTable:
    """Keys spread over shards by hash; each shard has its watcher lists and one lock."""

    def __init__(self, int num_shards):
        """Make a table of at least `num_shards` empty shards: the next power of two."""
        num_shards = 1 << primitives.bit_length(num_shards - 1)
        self._mask = num_shards - 1
        errors = ErrorLog(logger)
        self.shards = [WatchShard(index, errors) for index in range(num_shards)]

    cdef pass_over(self, bint passed_over):
        cdef WatchShard shard
        for shard in self.shards:
            shard.passed_over = passed_over

    cpdef WatchShard shard_of(self, object key):
        return self._shard_of("key", key)

    cdef WatchShard _shard_of(self, str name, object key):
        """Return the shard of a key, which is or belongs to the argument of this name."""
        cdef Py_hash_t hashed = hash_of(key)
        if hashed == -1:
            raise unhashable(name, key, primitives.take_error())
        return <WatchShard> self.shards[hashed & self._mask]

    cpdef watch(self, DelayedOperation operation, keys):
        """Watch the operation under each key, until it has ended. Called once for an operation."""
        cdef Py_ssize_t index
        cdef Py_ssize_t count
        cdef Py_ssize_t size
        cdef OutsideNode *outside
        if type(keys) is not list:
            keys = tuple(keys)
        count = PySequence_Fast_GET_SIZE(keys)
        if count > NODES_INSIDE:
            size = (count - NODES_INSIDE) * sizeof(OutsideNode)
            operation._further = PyBytes_FromStringAndSize(NULL, size)
            memset(PyBytes_AS_STRING(operation._further), 0, size)
        for index in range(count):
            if operation._state != states.PENDING:
                break
            if index >= PySequence_Fast_GET_SIZE(keys):
                break  # A key's __hash__ has changed the list of keys.
            key = <object> PySequence_Fast_GET_ITEM(keys, index)
            shard = self._shard_of("keys", key)
            if index < NODES_INSIDE:
                (<WatchShard> shard).watch(key, operation, &operation._nodes[index], index + 1)
            else:
                outside = node_outside(operation, index - NODES_INSIDE)
                outside.operation = <PyObject *> operation
                (<WatchShard> shard).watch(key, operation, &outside.node, NODES_INSIDE + 1)

    cpdef Py_ssize_t drop_watches(self, DelayedOperation operation) except -1:
        cdef Py_ssize_t dropped = 0
        cdef Py_ssize_t index
        for index in range(NODES_INSIDE):
            dropped += self._drop_node(&operation._nodes[index])
        for index in range(nodes_outside(operation)):
            dropped += self._drop_node(&node_outside(operation, index).node)
        return dropped

    cdef bint _drop_node(self, Node *node) except -1:
        """Remove a node from its list; its operation is alive."""
        cdef PyObject *found = list_of_node(node)
        cdef WatchShard shard
        if found == NULL:
            return False
        # With the GIL the list lives until the next call, and the wait for the lock may be one.
        shard = <WatchShard> self.shards[get_shard(node, (<WatcherList> found).shard)]
        return shard.drop_node(node)

    cpdef bint is_watched(self, DelayedOperation operation) noexcept:
        cdef Py_ssize_t index
        for index in range(NODES_INSIDE):
            if list_of_node(&operation._nodes[index]) != NULL:
                return True
        for index in range(nodes_outside(operation)):
            if list_of_node(&node_outside(operation, index).node) != NULL:
                return True
        return False

    def is_first_list(self, DelayedOperation operation not None, WatcherList watchers not None):
        """Return True for the first of the lists that the operation is in, by its order of keys."""
        cdef Py_ssize_t index
        cdef PyObject *found
        for index in range(NODES_INSIDE):
            found = list_of_node(&operation._nodes[index])
            if found != NULL:
                return found == <PyObject *> watchers
        for index in range(nodes_outside(operation)):
            found = list_of_node(&node_outside(operation, index).node)
            if found != NULL:
                return found == <PyObject *> watchers
        return False

    cpdef Py_ssize_t num_watchers(self, object key) except -1:
        cdef WatcherList watchers = self.shard_of(key).get(key)
        return 0 if watchers is None else watchers._size

    cpdef remove_all(self, OperationChain removed):
        cdef Py_ssize_t count = 0
        cdef WatchShard shard
        for shard in self.shards:
            count += shard.remove_all(removed)
            if count >= 4000:  # As within a shard.
                count = 0
                primitives.let_others_run()

    def operations(self):
        cdef dict found = {}
        cdef WatchShard shard
        for shard in self.shards:
            for watchers in shard.lists():
                for operation in shard.operations_of(watchers):
                    found[id(operation)] = operation
        return list(found.values())

    @property
    def num_keys(self):
        cdef WatchShard shard
        return sum([len(shard._lists) for shard in self.shards])

    @property
    def size(self):
        cdef WatchShard shard
        return sum([shard._size for shard in self.shards])

    def check_invariants(self):
        for shard in self.shards:
            shard.check_invariants()
