"""Reads a regular expression in RE2's syntax, and makes a program of it.

There are no back-references and no look-around, which could not be matched in linear time. What an
expression captures, and which of several matches it prefers, has no meaning here, so greedy and
lazy repetitions are the same.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from purgatory_broker.patterns.character_syntax import (
    read_bracket,
    read_class_escape,
    read_escape,
)
from purgatory_broker.patterns.characters import WORD, CharacterSet
from purgatory_broker.patterns.cursor import Cursor, PatternError
from purgatory_broker.patterns.program import (
    Fragment,
    Instruction,
    any_number,
    choice,
    sequence,
    up_to,
)

#: The most instructions of a program; matching takes as many steps for each character at most.
MAX_INSTRUCTIONS = 2_000
#: As in RE2.
_MAX_REPETITIONS = 1_000
_MAX_NESTING = 100
_ANY: Final = CharacterSet(is_negated=True)
_NOT_NEWLINE: Final = CharacterSet(frozenset("\n"), is_negated=True)


@dataclass(frozen=True, slots=True)
class _Flags:
    ignores_case: bool = False
    is_multiline: bool = False
    dot_is_any: bool = False


def parse(pattern: str) -> tuple[Instruction, ...]:
    """Return the program of an expression; it matches where it ends behind its last step."""
    return _Parser(Cursor(pattern)).parse().instructions


@dataclass(slots=True)
class _Parser:
    cursor: Cursor
    flags: _Flags = field(default_factory=_Flags)
    _depth: int = 0

    def parse(self) -> Fragment:
        fragment = self._alternatives()
        if self.cursor.position < len(self.cursor.text):
            raise PatternError("unexpected )", self.cursor.text)
        return fragment

    def _alternatives(self) -> Fragment:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise PatternError("expression nests too deeply", self.cursor.text)
        alternatives = [self._concatenation()]
        while self.cursor.take("|"):
            alternatives.append(self._concatenation())
        self._depth -= 1
        return self._checked(choice(alternatives))

    def _checked(self, fragment: Fragment) -> Fragment:
        if len(fragment.instructions) > MAX_INSTRUCTIONS:
            raise PatternError("expression is too large", self.cursor.text[:100])
        return fragment

    def _concatenation(self) -> Fragment:
        fragments: list[Fragment] = []
        while not (self.cursor.is_at_end or self.cursor.peek("|") or self.cursor.peek(")")):
            start = self.cursor.position
            if self.cursor.take("\\Q"):
                end = self.cursor.text.find("\\E", self.cursor.position)
                quoted = self.cursor.text[self.cursor.position : end if end >= 0 else None]
                self.cursor.position = len(self.cursor.text) if end < 0 else end + 2
                if quoted:
                    fragments += map(self._literal, quoted)
                    fragments[-1] = self._repeated(fragments[-1], start)
                continue
            fragment = self._atom()
            if fragment is None:  # Flags alone.
                if not self.cursor.is_at_end and self.cursor.text[self.cursor.position] in "*+?":
                    raise PatternError(
                        "missing argument to repetition operator",
                        self.cursor.text[self.cursor.position],
                    )
                continue
            fragments.append(self._repeated(fragment, start))
        return self._checked(sequence(fragments))

    def _repeated(self, fragment: Fragment, start: int) -> Fragment:
        bounds = self._bounds()
        if bounds is None:
            return fragment
        least, most = bounds
        self.cursor.take("?")  # Lazy.
        after = self.cursor.position
        if self._bounds() is not None:
            raise PatternError("invalid nested repetition operator", self.cursor.since(start))
        self.cursor.position = after
        size = len(fragment.instructions) + 2
        if size * max(least + (most is None), most or 0) > MAX_INSTRUCTIONS:
            raise PatternError("expression is too large", self.cursor.text[start:after][:100])
        copies = [fragment] * least
        if most is None:
            return sequence([*copies, any_number(fragment)])
        return sequence([*copies, up_to(most - least, fragment)])

    def _bounds(self) -> tuple[int, int | None] | None:
        """Return how often the part before is to come; None if nothing says it."""
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.cursor.take(operator):
                return bounds
        if not self.cursor.peek("{"):
            return None
        end = self.cursor.text.find("}", self.cursor.position)
        shown = self.cursor.text[self.cursor.position : end + 1]
        least, comma, most = shown[1:-1].partition(",")
        is_count = least.isascii() and least.isdigit()
        if end < 0 or not is_count or (most and not (most.isascii() and most.isdigit())):
            return None  # A literal brace.
        low = int(least) if len(least) <= 4 else _MAX_REPETITIONS + 1
        high = int(most) if most and len(most) <= 4 else None
        if most and high is None:
            high = _MAX_REPETITIONS + 1
        if not comma:
            high = low
        if low > _MAX_REPETITIONS or (high is not None and not low <= high <= _MAX_REPETITIONS):
            raise PatternError("invalid repeat count", shown)
        self.cursor.position = end + 1
        return low, high

    # -- atoms

    def _atom(self) -> Fragment | None:
        start = self.cursor.position
        if self.cursor.peek("{") and self._bounds() is not None:
            raise PatternError("missing argument to repetition operator", self.cursor.since(start))
        character = self.cursor.next()
        if character in "*+?":
            raise PatternError("missing argument to repetition operator", character)
        if character == "(":
            return self._group(start)
        if character == "[":
            return self._set(read_bracket(self.cursor, start, ignores_case=self.flags.ignores_case))
        if character == ".":
            return self._set(_ANY if self.flags.dot_is_any else _NOT_NEWLINE)
        if character == "^":
            return self._assertion("^" if self.flags.is_multiline else "A")
        if character == "$":
            return self._assertion("$" if self.flags.is_multiline else "z")
        if character == "\\":
            for escape in "AzbB":
                if self.cursor.take(escape):
                    return self._assertion(escape)
            found = read_class_escape(self.cursor)
            return self._literal(read_escape(self.cursor)) if found is None else self._set(found)
        return self._literal(character)

    def _assertion(self, assertion: str) -> Fragment:
        return Fragment((Instruction((1,), assertion=assertion),))

    def _set(self, characters: CharacterSet) -> Fragment:
        return Fragment((Instruction((1,), characters),))

    def _literal(self, character: str) -> Fragment:
        return self._set(CharacterSet(frozenset(character), ignores_case=self.flags.ignores_case))

    def _group(self, start: int) -> Fragment | None:
        flags = self.flags
        if self.cursor.take("?"):
            if self.cursor.take("P<") or self.cursor.take("<"):
                self._group_name(start)
            elif self._set_flags(start):
                return None
        fragment = self._alternatives()
        if not self.cursor.take(")"):
            raise PatternError("missing closing )", self.cursor.text)
        self.flags = flags
        return fragment

    def _group_name(self, start: int) -> None:
        end = self.cursor.text.find(">", self.cursor.position)
        name = self.cursor.text[self.cursor.position : end]
        if end < 0 or not name or not WORD.issuperset(name):
            shown = self.cursor.text[start : end + 1] if end >= 0 else self.cursor.text[start:]
            raise PatternError("invalid named capture", shown)
        self.cursor.position = end + 1

    def _set_flags(self, start: int) -> bool:
        """Read flags such as `i` or `-s`; return whether they are for what follows the group."""
        value, seen = True, False
        changes: dict[str, bool] = {}
        while not self.cursor.is_at_end:
            flag = self.cursor.next()
            if flag in "imsU":
                seen = True
                changes[flag] = value
            elif flag == "-" and value:
                value, seen = False, False
            elif flag in ":)" and (value or seen) and (seen or flag == ":"):
                self.flags = _Flags(
                    changes.get("i", self.flags.ignores_case),
                    changes.get("m", self.flags.is_multiline),
                    changes.get("s", self.flags.dot_is_any),
                )
                return flag == ")"
            else:
                break
        raise PatternError("invalid or unsupported Perl syntax", self.cursor.since(start))
