"""Numbers formatted for people."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from purgatory_spark._analysis.sentences import print_sentence
from purgatory_spark._analysis.units import (
    binary_unit,
    common_unit,
    format_bytes,
    format_in,
    format_ms,
    format_number,
    format_share,
    unbroken,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0"),
        (0.001, "1 \N{MICRO SIGN}s"),
        (0.2, "200 \N{MICRO SIGN}s"),
        (1.5, "1.5 ms"),
        (1000, "1 s"),
        (90_000, "90 s"),
        (300_000, "5 min"),
        (10_000_000, "2.78 h"),
        (1e10, "2,778 h"),
    ],
)
def test_milliseconds_get_the_unit_that_suits_them(ms: float, text: str) -> None:
    assert format_ms(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5.0 GiB"), (2.0**41, "2.0 TiB")],
)
def test_bytes_get_a_binary_prefix(count: float, text: str) -> None:
    assert format_bytes(count) == text
    assert binary_unit(count)[0] == text.split()[1]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (0.000001, "0.0001 %"), (0.0013, "0.13 %"), (0.5, "50.0 %"), (1, "100.0 %")],
)
def test_small_shares_are_not_rounded_to_zero(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0123, "0.012"),
        (1.234, "1.2"),
        (56.78, "56.8"),
        (567.8, "568"),
        (1234567.8, "1,234,568"),
    ],
)
def test_numbers_have_significant_digits(value: float, text: str) -> None:
    assert format_number(value) == text


def test_lines_break_nowhere_between_a_number_and_its_unit() -> None:
    text = unbroken("From 3.6 s down to 5 ms, 0.10 % of 5 services are in 1.2 KiB.")
    assert text.replace("\N{NO-BREAK SPACE}", "_") == (
        "From 3.6_s down to 5_ms, 0.10_% of 5 services are in 1.2_KiB."
    )


@pytest.mark.parametrize(
    ("times_ms", "unit"),
    [
        ([], "ms"),
        ([0, 0], "ms"),
        ([0.002, 0.5, 0.9], "\N{MICRO SIGN}s"),
        ([0.5, 20, 7_200_000], "ms"),
        ([20, 1000, 90_000], "s"),
        ([1e-5], "\N{MICRO SIGN}s"),
    ],
)
def test_times_of_a_column_have_the_unit_of_the_middle_one(
    times_ms: list[float], unit: str
) -> None:
    assert common_unit(times_ms)[0] == unit


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "0"),
        (0.0004, "<0.001"),
        (0.0052, "0.00520"),
        (1.5, "1.50"),
        (47.25, "47.2"),
        (99.96, "100"),
        (7_200_000, "7,200,000"),
    ],
)
def test_times_in_a_unit_have_three_digits_or_more(time_ms: float, text: str) -> None:
    assert format_in(time_ms, 1.0) == text


@pytest.mark.parametrize("width", range(24, 60))
def test_sentences_are_broken_between_words(width: int) -> None:
    sentence = "p: Choose 3.2 s: it answers 99.91 % of the 199,984 requests, in 104.1 KiB for 名前."
    printed = io.StringIO()
    console = Console(file=printed, width=width, force_terminal=True, color_system=None)
    print_sentence(console, sentence, indent="- ")
    first, *others = printed.getvalue().splitlines()
    assert first.startswith("- p: Choose")
    assert all(line.startswith("  ") for line in others)
    assert " ".join([first[2:], *(line[2:] for line in others)]) == sentence
    assert all(len(line) <= width for line in (first, *others))
    for number in ("3.2 s:", "99.91 %", "199,984", "104.1 KiB"):
        assert sum(number in line for line in (first, *others)) == 1


def test_sentences_in_a_file_are_one_line() -> None:
    printed = io.StringIO()
    print_sentence(Console(file=printed, width=20), "word " * 20 + "[b]")
    assert printed.getvalue() == "word " * 20 + "[b]\n"
