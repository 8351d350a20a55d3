from request_purgatory.held cimport HeldCondition


cdef class HeldRequest(HeldCondition):
    cdef public object waiting

    cdef _leave(self)
