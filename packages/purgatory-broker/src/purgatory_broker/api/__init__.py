"""The APIs of the broker, one in each file, and what their handlers share.

To add an API, add a file that defines `API`, a `ServedApi`: its message classes and versions, what
its handler needs of a request, the handler, the error response, and what a request names.
`registry` finds the file.
"""
