"""The APIs of the broker, one in each file, and what their handlers share.

To add an API, add a file that defines `API`, a `ServedApi`: its message classes and versions, its
handler, and its error response. `registry` finds the file.
"""
