"""The APIs of the broker, and what their handlers share.

To add an API, define a `ServedApi`, in a file of its own or beside those that it belongs to: its
message classes and versions, what its handler needs of a request, the handler, the error response,
and what a request names. `registry` finds it.
"""
