"""Reads which characters a regular expression means: escapes, classes and brackets."""

from __future__ import annotations

from typing import Final

from purgatory_broker.patterns.characters import PERL_CLASSES, POSIX_CLASSES, CharacterSet
from purgatory_broker.patterns.cursor import Cursor, PatternError

_ESCAPES: Final = {
    "a": "\a",
    "f": "\f",
    "t": "\t",
    "n": "\n",
    "r": "\r",
    "v": "\v",
}


def read_class_escape(cursor: Cursor) -> CharacterSet | None:
    """Read what follows a backslash if it is a class such as `d` or `pL`."""
    if cursor.is_at_end:
        raise PatternError("trailing backslash at end of expression", "")
    letter = cursor.text[cursor.position]
    if letter.lower() in PERL_CLASSES and letter.isascii():
        cursor.position += 1
        return CharacterSet(PERL_CLASSES[letter.lower()], is_negated=letter.isupper())
    if letter not in "pP":
        return None
    start = cursor.position - 1
    cursor.position += 1
    name = cursor.next() if not cursor.is_at_end else ""
    if name == "{":
        end = cursor.text.find("}", cursor.position)
        name = cursor.text[cursor.position : end] if end >= 0 else ""
        cursor.position = len(cursor.text) if end < 0 else end + 1
    is_negated = (letter == "P") is not name.startswith("^")
    name = name.removeprefix("^")
    is_category = name[:1] in set("CLMNPSZ") and len(name) <= 2 and name.isascii()
    if not is_category and name != "Any":
        raise PatternError("invalid character class range", cursor.since(start))
    return CharacterSet(category="" if name == "Any" else name, is_negated=is_negated)


def read_escape(cursor: Cursor) -> str:
    """Read what follows a backslash; return the character."""
    start = cursor.position - 1
    if cursor.is_at_end:
        raise PatternError("trailing backslash at end of expression", "")
    letter = cursor.next()
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter == "x":
        return _read_hexadecimal(cursor, start)
    if letter in "01234567":
        digits = letter
        while len(digits) < 3 and not cursor.is_at_end and _is_octal(cursor):
            digits += cursor.next()
        # A number that does not begin with 0 and has one digit is a back-reference.
        if letter == "0" or len(digits) > 1:
            return chr(int(digits, 8))
    elif not letter.isalnum():
        return letter
    raise PatternError("invalid escape sequence", cursor.since(start))


def _is_octal(cursor: Cursor) -> bool:
    return cursor.text[cursor.position] in "01234567"


def _read_hexadecimal(cursor: Cursor, start: int) -> str:
    if cursor.take("{"):
        end = cursor.text.find("}", cursor.position)
        digits = cursor.text[cursor.position : end] if end >= 0 else ""
        cursor.position = len(cursor.text) if end < 0 else end + 1
    else:
        digits = cursor.text[cursor.position : cursor.position + 2]
        cursor.position += len(digits)
        digits = digits if len(digits) == 2 else ""
    is_number = bool(digits) and POSIX_CLASSES["xdigit"].issuperset(digits)
    code = int(digits, 16) if is_number and len(digits) <= 8 else -1
    if not 0 <= code <= 0x10FFFF:
        raise PatternError("invalid escape sequence", cursor.since(start))
    return chr(code)


def read_bracket(cursor: Cursor, start: int, *, ignores_case: bool) -> CharacterSet:
    is_negated = cursor.take("^")
    characters: set[str] = set()
    ranges: list[tuple[str, str]] = []
    parts: list[CharacterSet] = []
    is_first = True
    while is_first or not cursor.peek("]"):
        if cursor.is_at_end:
            raise PatternError("missing closing ]", cursor.text[start:])
        is_first = False
        if cursor.peek("[:") and ":]" in cursor.text[cursor.position + 2 :]:
            parts.append(_read_posix_class(cursor))
            continue
        range_start = cursor.position
        character = cursor.next()
        if character == "\\":
            found = read_class_escape(cursor)
            if found is not None:
                parts.append(found)
                continue
            character = read_escape(cursor)
        if not _is_range(cursor):
            characters.add(character)
            continue
        cursor.position += 1
        last = cursor.next()
        if last == "\\":
            last = read_escape(cursor)
        if last < character:
            raise PatternError("invalid character class range", cursor.since(range_start))
        ranges.append((character, last))
    cursor.position += 1
    return CharacterSet(
        frozenset(characters),
        tuple(ranges),
        tuple(parts),
        is_negated=is_negated,
        ignores_case=ignores_case,
    )


def _is_range(cursor: Cursor) -> bool:
    rest = cursor.text[cursor.position : cursor.position + 2]
    return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"


def _read_posix_class(cursor: Cursor) -> CharacterSet:
    end = cursor.text.index(":]", cursor.position + 2)
    shown = cursor.text[cursor.position : end + 2]
    name = shown[2:-2]
    is_negated = name.startswith("^")
    characters = POSIX_CLASSES.get(name.removeprefix("^"))
    if characters is None:
        raise PatternError("invalid character class range", shown)
    cursor.position = end + 2
    return CharacterSet(characters, is_negated=is_negated)
