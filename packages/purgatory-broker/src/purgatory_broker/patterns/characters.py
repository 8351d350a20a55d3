"""Sets of characters in regular expressions."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
WORD: Final = frozenset(_LOWER + _LOWER.upper() + DIGITS + "_")
_SPACE: Final = frozenset("\t\n\f\r ")

#: RE2's classes after a backslash, without their complements in upper case.
PERL_CLASSES: Final = {"d": frozenset(DIGITS), "s": _SPACE, "w": WORD}
_ASCII: Final = frozenset(map(chr, range(128)))
_PUNCTUATION: Final = frozenset(
    character
    for character in _ASCII
    if character.isprintable() and not character.isalnum() and character != " "
)
#: RE2's classes such as [:alpha:], inside of brackets.
POSIX_CLASSES: Final = {
    "alnum": WORD - {"_"},
    "alpha": frozenset(_LOWER + _LOWER.upper()),
    "ascii": _ASCII,
    "blank": frozenset("\t "),
    "cntrl": frozenset([*map(chr, range(32)), "\x7f"]),
    "digit": frozenset(DIGITS),
    "graph": WORD | _PUNCTUATION,
    "lower": frozenset(_LOWER),
    "print": WORD | _PUNCTUATION | {" "},
    "punct": _PUNCTUATION,
    "space": _SPACE | {"\v"},
    "upper": frozenset(_LOWER.upper()),
    "word": WORD,
    "xdigit": frozenset(DIGITS + "abcdefABCDEF"),
}


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """Characters by themselves, ranges and Unicode categories, or all others if negated."""

    characters: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    #: Sets that belong to this one: negated classes and categories inside of brackets.
    parts: tuple[CharacterSet, ...] = ()
    #: A Unicode category such as "L" or "Lu".
    category: str | None = None
    is_negated: bool = False
    ignores_case: bool = False

    def __contains__(self, character: str) -> bool:
        found = self._has(character)
        if not found and self.ignores_case:
            found = self._has(character.lower()) or self._has(character.upper())
        return found is not self.is_negated

    def _has(self, character: str) -> bool:
        return (
            character in self.characters
            or any(first <= character <= last for first, last in self.ranges)
            or any(character in part for part in self.parts)
            or (
                self.category is not None
                and len(character) == 1
                and unicodedata.category(character).startswith(self.category)
            )
        )
