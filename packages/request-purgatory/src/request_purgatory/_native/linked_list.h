/* Doubly linked lists through the objects that are in them: linking allocates nothing.

   A node is a field of the object that is linked. Its `list` is the address of the list's object, whose
   lowest bits are free because objects are aligned: they have the node's place among the nodes of its
   object, from 1 on. A node that was never used is 0, and one that has left its list has the place only.

   The list owns one reference to the object of each node: who links adds it, and who unlinks has it from
   then on. A node has none to its list. So a watcher list that is not empty has a reference to itself, and
   a bucket of the timer unlinks what is in it before it goes. All changes are made under the list's lock. */
#ifndef REQUEST_PURGATORY_LINKED_LIST_H
#define REQUEST_PURGATORY_LINKED_LIST_H

#include <Python.h>
#include <stddef.h>

typedef struct rp_node {
    struct rp_node *prev;
    struct rp_node *next;
    size_t list;
#ifdef Py_GIL_DISABLED
    /* Which lock guards the node: another thread may free the list that it names before one has read it. */
    int shard;
#endif
} rp_node;

typedef struct {
    rp_node *head;
    rp_node *tail;
} rp_list;

/* What an object begins with whose first field is a node, or a list, and that has methods in C. */
typedef struct {
    PyObject_HEAD
    void *methods;
    rp_node node;
} rp_node_owner;

typedef struct {
    PyObject_HEAD
    void *methods;
    rp_list nodes;
} rp_list_owner;

#define RP_NODE_OFFSET ((Py_ssize_t)offsetof(rp_node_owner, node))
#define RP_LIST_OFFSET ((Py_ssize_t)offsetof(rp_list_owner, nodes))
#define rp_owner_of(linked) ((PyObject *)((char *)(linked) - RP_NODE_OFFSET))
/* For Cython: a reference that the caller has becomes that of a variable. */
#define rp_take_reference(owned) (owned)

#define RP_PLACE_BITS ((size_t)7)

/* The list is read without its lock, and then once more under it. */
#if defined(Py_GIL_DISABLED) && defined(__GNUC__)
#define rp_load_list(node) __atomic_load_n(&(node)->list, __ATOMIC_RELAXED)
#define rp_store_list(node, value) __atomic_store_n(&(node)->list, (value), __ATOMIC_RELAXED)
#else
#define rp_load_list(node) ((node)->list)
#define rp_store_list(node, value) ((void)((node)->list = (value)))
#endif

#ifdef Py_GIL_DISABLED
#define rp_set_shard(node, number) ((void)((node)->shard = (number)))
#define rp_get_shard(node, number_in_list) ((node)->shard)
#else
#define rp_set_shard(node, number) ((void)0)
#define rp_get_shard(node, number_in_list) (number_in_list)
#endif

#define rp_place(node) (rp_load_list(node) & RP_PLACE_BITS)
/* NULL if the node is in no list. */
#define rp_list_of(node) ((PyObject *)(rp_load_list(node) & ~RP_PLACE_BITS))

static inline void rp_append(rp_list *list, PyObject *object, rp_node *node, size_t place)
{
    node->next = NULL;
    node->prev = list->tail;
    if (list->tail == NULL)
        list->head = node;
    else
        list->tail->next = node;
    list->tail = node;
    rp_store_list(node, (size_t)object | place);
}

/* Unlinks the first node for a move to another list: until then it names this one. */
static inline void rp_detach_first(rp_list *list, rp_node *node)
{
    rp_node *after = node->next;
    list->head = after;
    if (after == NULL)
        list->tail = NULL;
    else
        after->prev = NULL;
}

static inline void rp_remove(rp_list *list, rp_node *node)
{
    if (node->prev == NULL)
        list->head = node->next;
    else
        node->prev->next = node->next;
    if (node->next == NULL)
        list->tail = node->prev;
    else
        node->next->prev = node->prev;
    rp_store_list(node, rp_place(node));
}

#endif
