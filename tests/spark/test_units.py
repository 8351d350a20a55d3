"""Numbers as people read them."""

from __future__ import annotations

import pytest

from request_purgatory.pipeline.analysis.units import (
    bytes_text,
    bytes_unit,
    ms_text,
    share_text,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0"),
        (0.001, "1 µs"),
        (0.2, "200 µs"),
        (1.5, "1.5 ms"),
        (1000, "1 s"),
        (90_000, "90 s"),
        (300_000, "5 min"),
        (10_000_000, "2.78 h"),
        (1e10, "2,778 h"),
    ],
)
def test_milliseconds_get_the_unit_that_suits_them(ms: float, text: str) -> None:
    """Three digits, and never an exponent."""
    assert ms_text(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5.0 GiB"), (2.0**41, "2.0 TiB")],
)
def test_bytes_get_a_binary_prefix(count: float, text: str) -> None:
    """Of the unit that `bytes_unit` names."""
    assert bytes_text(count) == text
    assert bytes_unit(count)[0] == text.split()[1]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (0.000001, "0.0001 %"), (0.0013, "0.13 %"), (0.5, "50.0 %"), (1, "100.0 %")],
)
def test_small_shares_do_not_become_nothing(share: float, text: str) -> None:
    """A share of one in a million is not 0 %."""
    assert share_text(share) == text
