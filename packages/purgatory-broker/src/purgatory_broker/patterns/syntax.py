"""Reads a regular expression in RE2's syntax, and makes a program of it.

There are no back-references and no look-around, which could not be matched in linear time. What an
expression captures, and which of several matches it prefers, has no meaning here, so greedy and
lazy repetitions are the same.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from purgatory_broker.patterns.characters import (
    PERL_CLASSES,
    POSIX_CLASSES,
    WORD,
    CharacterSet,
)

#: The most instructions of a program; matching takes as many steps for each character at most.
MAX_INSTRUCTIONS = 2_000
#: As in RE2.
_MAX_REPETITIONS = 1_000
_MAX_NESTING = 100
_ESCAPES: Final = {
    "a": "\a",
    "f": "\f",
    "t": "\t",
    "n": "\n",
    "r": "\r",
    "v": "\v",
}
_ANY: Final = CharacterSet(is_negated=True)
_NOT_NEWLINE: Final = CharacterSet(frozenset("\n"), is_negated=True)


class PatternError(ValueError):
    """A regular expression that is not valid."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")
        self.description = what


class Instruction(NamedTuple):
    """A step: to consume a character, to hold at a place, or to go on elsewhere, for nothing."""

    #: Where the match goes on; two places for a choice.
    targets: tuple[int, ...]
    characters: CharacterSet | None = None
    #: One of `^`, `$`, `A`, `z`, `b` and `B`.
    assertion: str = ""


class Fragment(NamedTuple):
    """A part of a program whose targets count from its first instruction; its end is behind it."""

    instructions: tuple[Instruction, ...]

    def shifted(self, by: int) -> list[Instruction]:
        return [
            step._replace(targets=tuple(target + by for target in step.targets))
            for step in self.instructions
        ]


@dataclass(frozen=True, slots=True)
class _Flags:
    ignores_case: bool = False
    is_multiline: bool = False
    dot_is_any: bool = False


def parse(pattern: str) -> tuple[Instruction, ...]:
    """Return the program of an expression; it matches where it ends behind its last step."""
    return _Parser(pattern).parse().instructions


def _sequence(fragments: list[Fragment]) -> Fragment:
    steps: list[Instruction] = []
    for fragment in fragments:
        steps += fragment.shifted(len(steps))
    return Fragment(tuple(steps))


def _choice(fragments: list[Fragment]) -> Fragment:
    result = fragments[-1]
    for fragment in reversed(fragments[:-1]):
        first = fragment.shifted(1)
        second = result.shifted(len(first) + 2)
        end = len(first) + len(second) + 2
        steps = [Instruction((1, len(first) + 2)), *first, Instruction((end,)), *second]
        result = Fragment(tuple(steps))
    return result


def _up_to(count: int, fragment: Fragment) -> Fragment:
    steps: list[Instruction] = []
    end = count * (len(fragment.instructions) + 1)
    for _ in range(count):
        steps.append(Instruction((len(steps) + 1, end)))
        steps += fragment.shifted(len(steps))
    return Fragment(tuple(steps))


def _any_number(fragment: Fragment) -> Fragment:
    steps = fragment.shifted(1)
    end = len(steps) + 2
    return Fragment((Instruction((1, end)), *steps, Instruction((0,))))


@dataclass(slots=True)
class _Parser:
    pattern: str
    position: int = 0
    flags: _Flags = field(default_factory=_Flags)
    _depth: int = 0

    def parse(self) -> Fragment:
        fragment = self._alternatives()
        if self.position < len(self.pattern):
            raise PatternError("unexpected )", self.pattern)
        return fragment

    def _peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        self.position += len(text) * found
        return found

    def _next(self) -> str:
        self.position += 1
        return self.pattern[self.position - 1]

    @property
    def _is_at_end(self) -> bool:
        return self.position >= len(self.pattern)

    def _alternatives(self) -> Fragment:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise PatternError("expression nests too deeply", self.pattern)
        alternatives = [self._concatenation()]
        while self._take("|"):
            alternatives.append(self._concatenation())
        self._depth -= 1
        return self._checked(_choice(alternatives))

    def _checked(self, fragment: Fragment) -> Fragment:
        if len(fragment.instructions) > MAX_INSTRUCTIONS:
            raise PatternError("expression is too large", self.pattern[:100])
        return fragment

    def _concatenation(self) -> Fragment:
        fragments: list[Fragment] = []
        while not (self._is_at_end or self._peek("|") or self._peek(")")):
            start = self.position
            if self._take("\\Q"):
                end = self.pattern.find("\\E", self.position)
                quoted = self.pattern[self.position : end if end >= 0 else None]
                self.position = len(self.pattern) if end < 0 else end + 2
                if quoted:
                    fragments += map(self._literal, quoted)
                    fragments[-1] = self._repeated(fragments[-1], start)
                continue
            fragment = self._atom()
            if fragment is None:  # Flags alone.
                if not self._is_at_end and self.pattern[self.position] in "*+?":
                    raise PatternError(
                        "missing argument to repetition operator", self.pattern[self.position]
                    )
                continue
            fragments.append(self._repeated(fragment, start))
        return self._checked(_sequence(fragments))

    def _repeated(self, fragment: Fragment, start: int) -> Fragment:
        bounds = self._bounds()
        if bounds is None:
            return fragment
        least, most = bounds
        self._take("?")  # Lazy.
        after = self.position
        if self._bounds() is not None:
            raise PatternError(
                "invalid nested repetition operator", self.pattern[start : self.position]
            )
        self.position = after
        size = len(fragment.instructions) + 2
        if size * max(least + (most is None), most or 0) > MAX_INSTRUCTIONS:
            raise PatternError("expression is too large", self.pattern[start:after][:100])
        copies = [fragment] * least
        if most is None:
            return _sequence([*copies, _any_number(fragment)])
        return _sequence([*copies, _up_to(most - least, fragment)])

    def _bounds(self) -> tuple[int, int | None] | None:
        """Return how often the part before is to come; None if nothing says it."""
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        if not self._peek("{"):
            return None
        end = self.pattern.find("}", self.position)
        shown = self.pattern[self.position : end + 1]
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
        self.position = end + 1
        return low, high

    # -- atoms

    def _atom(self) -> Fragment | None:
        start = self.position
        if self._peek("{") and self._bounds() is not None:
            raise PatternError(
                "missing argument to repetition operator", self.pattern[start : self.position]
            )
        character = self._next()
        if character in "*+?":
            raise PatternError("missing argument to repetition operator", character)
        if character == "(":
            return self._group(start)
        if character == "[":
            return self._set(self._bracket(start))
        if character == ".":
            return self._set(_ANY if self.flags.dot_is_any else _NOT_NEWLINE)
        if character == "^":
            return self._assertion("^" if self.flags.is_multiline else "A")
        if character == "$":
            return self._assertion("$" if self.flags.is_multiline else "z")
        if character == "\\":
            for escape in "AzbB":
                if self._take(escape):
                    return self._assertion(escape)
            found = self._class_escape()
            return self._literal(self._escape()) if found is None else self._set(found)
        return self._literal(character)

    def _assertion(self, assertion: str) -> Fragment:
        return Fragment((Instruction((1,), assertion=assertion),))

    def _set(self, characters: CharacterSet) -> Fragment:
        return Fragment((Instruction((1,), characters),))

    def _literal(self, character: str) -> Fragment:
        return self._set(CharacterSet(frozenset(character), ignores_case=self.flags.ignores_case))

    def _group(self, start: int) -> Fragment | None:
        flags = self.flags
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                self._group_name(start)
            elif self._set_flags(start):
                return None
        fragment = self._alternatives()
        if not self._take(")"):
            raise PatternError("missing closing )", self.pattern)
        self.flags = flags
        return fragment

    def _group_name(self, start: int) -> None:
        end = self.pattern.find(">", self.position)
        name = self.pattern[self.position : end]
        if end < 0 or not name or not WORD.issuperset(name):
            shown = self.pattern[start : end + 1] if end >= 0 else self.pattern[start:]
            raise PatternError("invalid named capture", shown)
        self.position = end + 1

    def _set_flags(self, start: int) -> bool:
        """Read flags such as `i` or `-s`; return whether they are for what follows the group."""
        value, seen = True, False
        changes: dict[str, bool] = {}
        while not self._is_at_end:
            flag = self._next()
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
        raise PatternError(
            "invalid or unsupported Perl syntax", self.pattern[start : self.position]
        )

    # -- escapes and brackets

    def _class_escape(self) -> CharacterSet | None:
        """Read what follows a backslash if it is a class such as `d` or `pL`."""
        if self._is_at_end:
            raise PatternError("trailing backslash at end of expression", "")
        letter = self.pattern[self.position]
        if letter.lower() in PERL_CLASSES and letter.isascii():
            self.position += 1
            return CharacterSet(PERL_CLASSES[letter.lower()], is_negated=letter.isupper())
        if letter not in "pP":
            return None
        start = self.position - 1
        self.position += 1
        name = self._next() if not self._is_at_end else ""
        if name == "{":
            end = self.pattern.find("}", self.position)
            name = self.pattern[self.position : end] if end >= 0 else ""
            self.position = len(self.pattern) if end < 0 else end + 1
        is_negated = (letter == "P") is not name.startswith("^")
        name = name.removeprefix("^")
        is_category = name[:1] in set("CLMNPSZ") and len(name) <= 2 and name.isascii()
        if not is_category and name != "Any":
            raise PatternError("invalid character class range", self.pattern[start : self.position])
        return CharacterSet(category="" if name == "Any" else name, is_negated=is_negated)

    def _escape(self) -> str:
        """Read what follows a backslash; return the character."""
        start = self.position - 1
        if self._is_at_end:
            raise PatternError("trailing backslash at end of expression", "")
        letter = self._next()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter == "x":
            return self._hexadecimal(start)
        if letter in "01234567":
            digits = letter
            while len(digits) < 3 and not self._is_at_end and self._peek_octal():
                digits += self._next()
            # A number that does not begin with 0 and has one digit is a back-reference.
            if letter == "0" or len(digits) > 1:
                return chr(int(digits, 8))
        elif not letter.isalnum():
            return letter
        raise PatternError("invalid escape sequence", self.pattern[start : self.position])

    def _peek_octal(self) -> bool:
        return self.pattern[self.position] in "01234567"

    def _hexadecimal(self, start: int) -> str:
        if self._take("{"):
            end = self.pattern.find("}", self.position)
            digits = self.pattern[self.position : end] if end >= 0 else ""
            self.position = len(self.pattern) if end < 0 else end + 1
        else:
            digits = self.pattern[self.position : self.position + 2]
            self.position += len(digits)
            digits = digits if len(digits) == 2 else ""
        is_number = bool(digits) and POSIX_CLASSES["xdigit"].issuperset(digits)
        code = int(digits, 16) if is_number and len(digits) <= 8 else -1
        if not 0 <= code <= 0x10FFFF:
            raise PatternError("invalid escape sequence", self.pattern[start : self.position])
        return chr(code)

    def _bracket(self, start: int) -> CharacterSet:
        is_negated = self._take("^")
        characters: set[str] = set()
        ranges: list[tuple[str, str]] = []
        parts: list[CharacterSet] = []
        is_first = True
        while is_first or not self._peek("]"):
            if self._is_at_end:
                raise PatternError("missing closing ]", self.pattern[start:])
            is_first = False
            if self._peek("[:") and ":]" in self.pattern[self.position + 2 :]:
                parts.append(self._posix_class())
                continue
            range_start = self.position
            character = self._next()
            if character == "\\":
                found = self._class_escape()
                if found is not None:
                    parts.append(found)
                    continue
                character = self._escape()
            if not self._is_range():
                characters.add(character)
                continue
            self.position += 1
            last = self._next()
            if last == "\\":
                last = self._escape()
            if last < character:
                raise PatternError(
                    "invalid character class range", self.pattern[range_start : self.position]
                )
            ranges.append((character, last))
        self.position += 1
        return CharacterSet(
            frozenset(characters),
            tuple(ranges),
            tuple(parts),
            is_negated=is_negated,
            ignores_case=self.flags.ignores_case,
        )

    def _is_range(self) -> bool:
        rest = self.pattern[self.position : self.position + 2]
        return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"

    def _posix_class(self) -> CharacterSet:
        end = self.pattern.index(":]", self.position + 2)
        shown = self.pattern[self.position : end + 2]
        name = shown[2:-2]
        is_negated = name.startswith("^")
        characters = POSIX_CLASSES.get(name.removeprefix("^"))
        if characters is None:
            raise PatternError("invalid character class range", shown)
        self.position = end + 2
        return CharacterSet(characters, is_negated=is_negated)
