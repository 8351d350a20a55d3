"""Numbers formatted for people."""

from __future__ import annotations

import pytest

from purgatory_spark._analysis.units import (
    binary_unit,
    format_bytes,
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
