"""Regular expressions match whole texts, as those of Python do, but in linear time."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.patterns.cursor import PatternError
from purgatory_broker.patterns.pattern import STEPS_PER_SLICE, Pattern
from purgatory_broker.patterns.syntax import MAX_INSTRUCTIONS

_ATOMS = st.sampled_from(
    ["a", "b", "-", ".", "[ab]", "[^a]", "[a-c-]", r"\d", r"\W", r"\.", r"\b", r"\B", "^", "$"]
)


def _repeated(atom: str) -> st.SearchStrategy[str]:
    operators = ["", "*", "+", "?", "*?", "{2}", "{1,2}", "{2,}"]
    return st.sampled_from(operators).map(lambda operator: f"(?:{atom}){operator}")


_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        inner.flatmap(_repeated),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map(lambda choice: f"({choice})"),
    ),
    max_leaves=6,
)


# Python's `$` matches before a newline at the end, too: the texts have none.
@given(_EXPRESSIONS, st.lists(st.text("abc-.0 ", min_size=1, max_size=6), min_size=1, max_size=5))
def test_matches_are_those_of_python(expression: str, texts: list[str]) -> None:
    pattern = Pattern(expression)
    for text in texts:
        expected = re.fullmatch(expression, text, re.ASCII) is not None
        assert pattern.matches(text) is expected, (expression, text)


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("orders-.*", "orders-eu", "my-orders-eu"),
        ("(?i)Orders", "oRDERS", "orders1"),
        ("(?i:a)b", "Ab", "AB"),
        ("(?-s).", "a", "\n"),
        ("(?s).", "\n", ""),
        ("(?m)a$\n^b", "a\nb", "a b"),
        ("x|a$\n^b", "x", "a\nb"),
        (r"\Qa.b\E+", "a.bb", "a.ba.b"),
        (r"\Qa.b", "a.b", "aab"),
        ("[[:alpha:]]+", "aZ", "a1"),
        ("[[:^alpha:]x]+", "1x", "a"),
        (r"[\d\-]+", "1-2", "a"),
        (r"[^\d]", "a", "1"),
        ("[]a]+", "]a", "b"),
        (r"\pL+", "aé", "1"),
        (r"\P{Lu}", "a", "A"),
        (r"\x41\x{1F600}\101", "A\U0001f600A", "A"),
        ("(?P<name>a)(?<other>b)", "ab", "a"),
        ("a{,2}", "a{,2}", "aa"),
        ("a{0,3}", "aaa", "aaaa"),
        (r"\Aa\z", "a", "b"),
        ("", "", "a"),
        ("a||b", "", "ab"),
    ],
)
def test_expression_matches_whole_texts(expression: str, matching: str, other: str) -> None:
    pattern = Pattern(expression)
    assert pattern.matches(matching)
    assert not pattern.matches(other)


# The descriptions are those of RE2/J.
@pytest.mark.parametrize(
    ("expression", "description"),
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("[b-a]", "invalid character class range"),
        ("[[:none:]]", "invalid character class range"),
        (r"\pX", "invalid character class range"),
        ("*a", "missing argument to repetition operator"),
        ("{2}", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{2,1}", "invalid repeat count"),
        ("a{99999999999999999999}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
        (r"\1", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?i", "invalid or unsupported Perl syntax"),
        ("(?P<>a)", "invalid named capture"),
        ("(?P<a", "invalid named capture"),
        ("(a{100}){100}", "expression is too large"),
        ("a" * (MAX_INSTRUCTIONS + 1), "expression is too large"),
        ("(" * 5_000 + ")" * 5_000, "expression nests too deeply"),
    ],
)
def test_invalid_expression_is_refused(expression: str, description: str) -> None:
    with pytest.raises(PatternError) as raised:
        Pattern(expression)
    assert raised.value.description == description


@given(st.text("ab()[]{}*+?|\\^$.-,:PQEdx0129<>i", max_size=20))
def test_any_text_is_an_expression_or_refused(expression: str) -> None:
    with suppress(PatternError):
        Pattern(expression).matches("ab")


def test_backtracking_expression_takes_linear_time() -> None:
    pattern = Pattern("(a+)+$")
    text = "a" * 2_000 + "b"
    assert not pattern.matches(text)
    assert pattern.num_steps < 10 * len(text)


def test_match_gives_way_to_others() -> None:
    pattern = Pattern("|".join(["[ab]*b[ab]{240}"] * 4))
    slices = [pattern.num_steps for _ in pattern.match("b" * 249)]
    assert len(slices) > 5
    lengths = [end - begin for begin, end in pairwise([0, *slices, pattern.num_steps])]
    assert max(lengths) < STEPS_PER_SLICE + 2 * MAX_INSTRUCTIONS


def test_large_expression_remembers_little() -> None:
    """Its sets of places can have hundreds of elements, and be all different."""
    pattern = Pattern("|".join(["[ab]*a[ab]{240}", "[ab]*b[ab]{240}"] * 3))
    random = Random(1)
    tracemalloc.start()
    try:
        for _ in range(2):
            pattern.matches("".join(random.choices("ab", k=249)))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 8_000_000
