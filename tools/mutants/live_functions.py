"""Putting a mutant's code into the functions of a process that has imported the module."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

Place = tuple[str, int]


class LiveFunctions:
    """The functions of this process, by the module and the place that their code comes from.

    So what imported a function, wrapped it or made a property of it finds the mutant, too.
    """

    def __init__(self) -> None:
        """Find all functions that exist now, those that the tests' session has frozen, too."""
        gc.unfreeze()
        self._functions: dict[str, dict[Place, list[FunctionType]]] = {}
        for found in gc.get_objects():
            if type(found) is FunctionType:
                code = found.__code__
                places = self._functions.setdefault(code.co_filename, {})
                places.setdefault((code.co_qualname, code.co_firstlineno), []).append(found)

    def put(self, module: CodeType) -> bool:
        """Give the functions of a module the code that they have in `module`.

        Returns:
            False if no function's code differs.
        """
        functions = self._functions.get(module.co_filename, {})
        changed = False
        for code in _codes(module):
            for function in functions.get((code.co_qualname, code.co_firstlineno), ()):
                if function.__code__ != code:
                    function.__code__ = code
                    changed = True
        return changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
