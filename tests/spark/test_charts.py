"""The pictures, drawn from rows alone."""

from __future__ import annotations

import re
import warnings
from datetime import datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from request_purgatory.pipeline.analysis.analysis import BINS_PER_DECADE
from request_purgatory.pipeline.analysis.charts import (
    expired_by_type,
    expired_over_time,
    pending_over_time,
    waiting_times,
    what_if_curve,
)

NOON = datetime(2022, 8, 22, 12)


def by_type(*names: str) -> str:
    """The picture of types of which all requests expired."""
    return expired_by_type(
        [{"value": name, "requests": 2, "expired": 2, "expired_share": 1.0} for name in names]
    )


def texts(svg: str) -> list[str]:
    """The words in a picture, which has to be well-formed."""
    return [
        "".join(element.itertext())
        for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "$x$",
        "from $5 to $10",
        "$\\frac$",
        "<script>alert(1)</script>",
        "a & b",
        "--> ]]>",
        "",
        "名前",
    ],
)
def test_name_of_a_type_is_drawn_as_it_is(name: str) -> None:
    """Neither a formula nor markup, and without a word of warning about glyphs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = by_type(name, "other")
    assert "<script" not in svg
    assert name in [*texts(svg), ""]


def test_long_name_is_cut_at_its_beginning() -> None:
    """Ends of paths differ, beginnings do not."""
    assert "…" + "x" * 43 in texts(by_type("/very/long" + "x" * 100))


def test_most_expired_types_stand_on_top() -> None:
    """No more than asked for, and none of which nothing expired."""
    rows = [
        {"value": f"t{n}", "requests": 10, "expired": n, "expired_share": n / 10} for n in range(6)
    ]
    shown = texts(expired_by_type(rows, most=3))
    assert [text for text in shown if text.startswith("t")] == ["t3", "t4", "t5"]
    assert [text.strip() for text in shown if " of " in text] == ["3 of 10", "4 of 10", "5 of 10"]


def rows_at(count: int, **values: Any) -> list[dict[str, Any]]:
    """Bins of a minute."""
    row = {"arrived": 0, "ended": 0, "expired": 0, "pending": 0} | values
    return [{"from_at": NOON + timedelta(minutes=number), **row} for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 250])
@pytest.mark.parametrize("values", [{}, {"arrived": 1, "expired": 1, "pending": 10**9}])
def test_any_number_of_bins_can_be_drawn(count: int, values: dict[str, int]) -> None:
    """A single one, and with nothing in them."""
    rows = rows_at(count, **values)
    for draw in (pending_over_time, expired_over_time):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert draw(rows, [{"at": NOON}]).startswith('<svg role="img" aria-label="')


@pytest.mark.parametrize(
    ("waits", "quantiles"),
    [
        ([{"from_ms": 0.001, "completed": 5, "expired": 0}], {"p50": 0.0, "p99": 0.0}),
        ([{"from_ms": 2e9, "completed": 0, "expired": 1}], {"p50": 2e9, "p99": 2e9}),
    ],
)
def test_waits_of_one_bin_can_be_drawn(
    waits: list[dict[str, Any]], quantiles: dict[str, float]
) -> None:
    """When no request waited, and when all waited for weeks."""
    shown = texts(waiting_times(waits, BINS_PER_DECADE, quantiles))
    assert {"completed", "expired"} <= set(shown)
    assert ("p50, p99" in shown) == (quantiles["p50"] > 0)


def test_curve_of_one_timeout_of_nothing_can_be_drawn() -> None:
    """Timeout 0 has a place on a log scale, and no memory is 0 B of it."""
    row = {"timeout_ms": 0, "expired_share": 1.0, "peak_bytes": 0.0}
    assert "B at the peak, busiest host" in texts(what_if_curve([row], [0, 0]))


def test_picture_is_the_same_each_time_and_takes_the_pages_width() -> None:
    """No date in it, and no size of its own."""
    svg = by_type("one", "two")
    tag = re.match("<svg[^>]*>", svg)
    assert tag is not None
    assert not re.search(r" (width|height)=", tag[0])
    assert "<dc:date>" not in svg
