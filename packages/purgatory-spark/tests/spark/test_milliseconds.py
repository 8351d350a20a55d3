"""Seconds are converted to the milliseconds that their digits say, rounded to nanoseconds."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_spark._rows import column_values
from purgatory_spark._rows.column_values import milliseconds_of

#: As `DECIMAL(28, 9)` has them.
MOST_SECONDS = 1e19


def expected_ms(digits: str) -> float:
    with localcontext(prec=80):
        return float(Decimal(digits).quantize(Decimal("1e-9"), ROUND_HALF_UP) * 1000)


@example([2.5e-9, -2.5e-9, 1.0000000005, 0.1000000005, 35_000.0000000015])
@given(st.lists(st.floats(-MOST_SECONDS, MOST_SECONDS, exclude_min=True, exclude_max=True)))
def test_double_is_rounded_by_its_digits(seconds: list[float]) -> None:
    found = milliseconds_of(pa.array(seconds, pa.float64()), "took").to_pylist()
    assert found == [expected_ms(repr(each)) for each in seconds]


@given(
    st.lists(
        st.decimals(Decimal(-(10**15)), Decimal(10**15), places=None, allow_nan=False).map(str)
        | st.decimals(Decimal(-10), Decimal(10), places=10).map(str)
        | st.decimals(Decimal(-10), Decimal(10), places=24).map(str)
    )
)
def test_text_is_rounded_by_its_digits(seconds: list[str]) -> None:
    found = milliseconds_of(pa.array(seconds, pa.string()), "took").to_pylist()
    assert found == [expected_ms(each) for each in seconds]


@pytest.mark.parametrize("seconds", [0.5, 12.345678901234567, 0.00012345678901234567, 9.25e-9])
def test_double_of_usual_size_is_not_converted_by_python(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert_one(text: str) -> float:
        raise AssertionError(text)

    # Python takes 6 us for each.
    monkeypatch.setattr(column_values, "_seconds_as_ms", convert_one)
    for each in (seconds, -seconds):
        assert milliseconds_of(pa.array([each, None]), "took").to_pylist() == [
            expected_ms(repr(each)),
            None,
        ]
