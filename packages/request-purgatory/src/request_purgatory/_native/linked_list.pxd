# The intrusive lists of the compiled core; the header has their rules.
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from "linked_list.h":
    ctypedef struct Node "rp_node":
        Node *prev
        Node *next
    ctypedef struct List "rp_list":
        Node *head
        Node *tail
    ctypedef struct NodeOwner "rp_node_owner":
        Node node
    ctypedef struct ListOwner "rp_list_owner":
        List nodes
    void append_node "rp_append"(List *nodes, PyObject *list_object, Node *node, size_t place) noexcept
    void detach_node "rp_detach_first"(List *nodes, Node *node) noexcept
    void remove_node "rp_remove"(List *nodes, Node *node) noexcept
    PyObject *list_of_node "rp_list_of"(Node *node) noexcept
    size_t place_of "rp_place"(Node *node) noexcept
    void set_shard "rp_set_shard"(Node *node, int number) noexcept
    int get_shard "rp_get_shard"(Node *node, int number_in_list) noexcept
    PyObject *owner_of "rp_owner_of"(Node *node) noexcept
    Py_ssize_t NODE_OFFSET "RP_NODE_OFFSET"
    Py_ssize_t LIST_OFFSET "RP_LIST_OFFSET"
    object take_reference "rp_take_reference"(PyObject *owned)


# The functions of linked_list.py, for objects whose class begins with a `Node` and lists whose class
# begins with a `List`.

cdef inline void append(object linked_list, object linked) noexcept:
    Py_INCREF(linked)
    append_node(
        &(<ListOwner *> linked_list).nodes,
        <PyObject *> linked_list,
        &(<NodeOwner *> linked).node,
        1,
    )


cdef inline void remove(object linked_list, object linked) noexcept:
    remove_node(&(<ListOwner *> linked_list).nodes, &(<NodeOwner *> linked).node)
    Py_DECREF(linked)


cdef inline object pop_first(object linked_list):
    cdef Node *first = (<ListOwner *> linked_list).nodes.head
    if first == NULL:
        return None
    remove_node(&(<ListOwner *> linked_list).nodes, first)
    return take_reference(owner_of(first))


cdef inline object detach_first(object linked_list):
    cdef Node *first = (<ListOwner *> linked_list).nodes.head
    if first == NULL:
        return None
    detach_node(&(<ListOwner *> linked_list).nodes, first)
    return take_reference(owner_of(first))


cdef inline bint is_empty(object linked_list) noexcept:
    return (<ListOwner *> linked_list).nodes.head == NULL


cdef inline object list_of(object linked):
    cdef PyObject *found = list_of_node(&(<NodeOwner *> linked).node)
    return None if found == NULL else <object> found


cdef inline bint is_linked(object linked) noexcept:
    return list_of_node(&(<NodeOwner *> linked).node) != NULL


cdef inline bint is_in(object linked_list, object linked) noexcept:
    return list_of_node(&(<NodeOwner *> linked).node) == <PyObject *> linked_list


cdef inline list objects_in(object linked_list):
    cdef list found = []
    cdef Node *node = (<ListOwner *> linked_list).nodes.head
    while node != NULL:
        found.append(<object> owner_of(node))
        node = node.next
    return found


cdef inline Py_ssize_t count(object linked_list, Py_ssize_t at_most) noexcept:
    cdef Py_ssize_t found = 0
    cdef Node *node = (<ListOwner *> linked_list).nodes.head
    while node != NULL and found < at_most:
        node = node.next
        found += 1
    return found


cdef inline Py_ssize_t check(object linked_list) except -1:
    cdef Py_ssize_t count = 0
    cdef Node *before = NULL
    cdef Node *node = (<ListOwner *> linked_list).nodes.head
    while node != NULL:
        owner = <object> owner_of(node)
        assert list_of_node(node) == <PyObject *> linked_list, (
            f"{owner!r} is linked in a list that it does not name"
        )
        assert node.prev == before, f"{owner!r} has a wrong link backwards"
        before = node
        node = node.next
        count += 1
    assert (<ListOwner *> linked_list).nodes.tail == before, (
        "the list's tail is not its last object"
    )
    return count
