"""Turns for other threads in loops of compiled code. Never compiled."""

from __future__ import annotations


def give_way() -> None:
    """Let a thread that waits for the interpreter lock run, and the handlers of signals.

    The interpreter does both at each call of Python code, if it is time to. A loop of compiled code
    that calls none would keep them waiting until its end. May raise what a handler raises.
    """
