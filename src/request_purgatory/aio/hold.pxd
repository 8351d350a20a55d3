from request_purgatory.purgatory.hold cimport HeldCondition


cdef class HeldRequest(HeldCondition):
    cdef public object waiting

    cdef _leave(self)
