# Only what the module calls in C: its class is a Python class.
from request_purgatory._native cimport primitives
