# The intrusive lists of the compiled core; the header has their rules.
from cpython.object cimport PyObject

cdef extern from "linked_list.h":
    ctypedef struct Node "rp_node":
        Node *prev
        Node *next
    ctypedef struct List "rp_list":
        Node *head
        Node *tail
    void append "rp_append"(List *nodes, PyObject *list_object, Node *node, size_t place) noexcept
    void remove "rp_remove"(List *nodes, Node *node) noexcept
    PyObject *list_of "rp_list_of"(Node *node) noexcept
    size_t place_of "rp_place"(Node *node) noexcept
    void set_shard "rp_set_shard"(Node *node, int number) noexcept
    int get_shard "rp_get_shard"(Node *node, int number_in_list) noexcept
