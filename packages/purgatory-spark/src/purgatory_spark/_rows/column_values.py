"""Convert columns of any type to the fields of a trace, where no value changes.

pandas writes whole numbers with nulls as floats, CSV has text only, and tables of databases have
bigints and decimals. A value that would change is a reason to reject its row. Text has the forms
that Spark's casts know: the usual ones are converted by Arrow, others one distinct value at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.arrays import Bools, Floats, one_chunk, text_of_strings

#: Doubles below have all whole numbers.
_EXACT_DOUBLE = 2.0**53
INT64 = 2**63
_BLANK = " "
_REPLACED = "\ufffd"

#: Whole numbers of 64 bits, and numbers of at most nine places.
WHOLE = r"^-?\d{1,18}$"
FIXED = r"^-?\d{1,15}\.\d{1,9}$"
_DOUBLE = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
#: Floats that Spark writes without an exponent.
_PLAIN_FLOAT = r"^(0|-?[1-9]\d*|-?[1-9]\d{0,6}\.\d+|-?0\.0{0,2}[1-9]\d*)$"
#: The end of a fraction of a time, which Spark leaves out.
_ZEROS = r"\.?0+$"

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")


def text_of(column: pa.Array | pa.ChunkedArray, name: str) -> pa.StringArray:
    """Return a column as text, with all its blanks; null for NaN.

    A whole number that is a float has no fraction. A time is in the column's zone, which in Spark's
    workers is that of the session.
    """
    array = one_chunk(column)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return text_of(array.dictionary_decode(), name)
    if pa.types.is_string(kind):
        return array
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        is_nan = pc.fill_null(pc.is_nan(array), False)
        return _float_text(pc.if_else(is_nan, None, array))
    is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if is_text or is_number or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return array.cast(pa.string())
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # Bytes that are no text are left to `is_not_utf8`.
        return array.cast(pa.string(), safe=False)
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz), safe=False)
        text = pc.strftime(micros, "%Y-%m-%d %H:%M:%S")
        return pc.replace_substring_regex(text, _ZEROS, "")
    raise TraceFormatError(f"column {name} is {kind}; expected text, a number or a time")


def _float_text(numbers: pa.DoubleArray) -> pa.StringArray:
    text = numbers.cast(pa.string())
    is_plain = pc.match_substring_regex(text, _PLAIN_FLOAT)
    return with_others(text, text, is_plain, _java_text, pa.string())


def _java_text(text: str) -> str:
    """Return a number that Arrow writes with an exponent as Spark writes it."""
    number = float(text)
    if abs(number) == float("inf"):
        return "Infinity" if number > 0 else "-Infinity"
    if abs(number) < _EXACT_DOUBLE and number == int(number):
        return str(int(number))
    digits, _, exponent = f"{Decimal(repr(number)):E}".partition("E")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


def plain_text(column: pa.Array | pa.ChunkedArray, name: str) -> pa.StringArray:
    """Return a number or a time as text without surrounding blanks; null for empty text and NaN."""
    text = text_of(column, name)
    if _has_blanks(text):
        text = pc.utf8_trim(text, _BLANK)
    is_empty = _is_empty(text)
    return pc.if_else(pa.array(is_empty), None, text) if is_empty.any() else text


def is_blank(text: pa.StringArray) -> Bools:
    """Return which texts are empty but for blanks."""
    return _is_empty(pc.utf8_trim(text, _BLANK) if _has_blanks(text) else text)


def _has_blanks(text: pa.StringArray) -> bool:
    return bool((text_of_strings(text)[0] == ord(_BLANK)).any())


def _is_empty(text: pa.StringArray) -> Bools:
    """Return which texts are empty; not null."""
    is_empty: Bools = np.diff(text_of_strings(text)[1]) == 0
    if text.null_count:
        is_empty &= bools(text.is_valid())
    return is_empty


def is_missing(column: pa.Array) -> Bools:
    """Return which values are null, empty text, or NaN."""
    missing = bools(column.is_null(nan_is_null=True))
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        missing |= is_blank(text_of(column, ""))
    return missing


def is_not_utf8(text: pa.StringArray) -> Bools:
    """Return which texts have bytes that are no text, or the character that stands for them."""
    if text_of_strings(text)[0].max(initial=0) < 128:
        return np.zeros(len(text), dtype=bool)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([_is_bad_text(value) for value in text.cast(pa.binary()).to_pylist()])
    return bools(pc.match_substring(text, _REPLACED))


def _is_bad_text(value: bytes | None) -> bool:
    return value is not None and _REPLACED in value.decode("utf-8", "replace")


def is_inexact(column: pa.Array | pa.ChunkedArray) -> Bools | None:
    """Return which floats may stand for several whole numbers; None for other types."""
    array = one_chunk(column)
    if not pa.types.is_floating(array.type):
        return None
    large: Bools = np.abs(floats(array.cast(pa.float64()))) >= _EXACT_DOUBLE
    return large


def numbers_of(column: pa.Array | pa.ChunkedArray, name: str) -> pa.DoubleArray:
    """Return a column as doubles; null for null, NaN in floats, and what is no number."""
    array = one_chunk(column)
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
        return pc.if_else(pc.fill_null(pc.is_nan(array), False), None, array)
    if pa.types.is_integer(array.type):
        return array.cast(pa.float64(), safe=False)
    text = plain_text(array, name)
    plain = _plain_numbers(text)
    return with_others(plain, text, plain.is_valid(), _double, pa.float64())


def _plain_numbers(text: pa.StringArray) -> pa.DoubleArray:
    """Return text as doubles; null for what is no number of the usual forms."""
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        pass
    else:
        # Words such as inf have rules of their own.
        if np.isfinite(floats(numbers)).all():
            return numbers
    matched = pc.if_else(pc.match_substring_regex(text, _DOUBLE), text, None)
    return matched.cast(pa.float64())


def _double(text: str) -> float | None:
    text = text.strip()
    if _WORDS.fullmatch(text):
        return float(text)
    text = text[:-1] if text[-1:] in tuple("fFdD") else text
    return float(text) if _NUMBER.fullmatch(text) else None


def is_changed(column: pa.Array | pa.ChunkedArray, numbers: pa.DoubleArray, name: str) -> Bools:
    """Return which whole numbers a double has not."""
    array = one_chunk(column)
    changed: Bools = np.zeros(len(array), dtype=bool)
    at = np.flatnonzero(np.abs(floats(numbers)) >= _EXACT_DOUBLE)
    if len(at) and not pa.types.is_floating(array.type):
        text = plain_text(array.take(pa.array(at)), name)
        changed[at] = [_is_other(value) for value in text.to_pylist()]
    return changed


def _is_other(text: str) -> bool:
    if not _WHOLE_NUMBER.fullmatch(text):
        return False
    whole = int(text.partition(".")[0])
    # Spark compares with the shortest text of the double.
    return abs(whole) >= 10**38 or int(Decimal(repr(float(text)))) != whole


def milliseconds_of(column: pa.Array | pa.ChunkedArray, name: str) -> pa.DoubleArray:
    """Return a column of seconds as milliseconds: 1.001 s is 1,001 ms, of which doubles have more.

    A product of doubles serves what is no decimal number.
    """
    array = one_chunk(column)
    if pa.types.is_floating(array.type):
        seconds = numbers_of(array, name)
        ms, is_certain = _certain_ms(seconds)
        if seconds.null_count + np.count_nonzero(is_certain) == len(seconds):
            return ms
        text = pc.if_else(pa.array(is_certain), None, seconds).cast(pa.string())
    else:
        text = plain_text(array, name)
        ms, is_certain = _certain_ms(_plain_numbers(text))
    return with_others(ms, text, pa.array(is_certain), _seconds_as_ms, pa.float64())


def _certain_ms(seconds: pa.DoubleArray) -> tuple[pa.DoubleArray, Bools]:
    """Return doubles that stand for decimal numbers as milliseconds, null unless certain."""
    number = floats(seconds, null=np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        ns = number * 1e9
        # The product is off by less than this. The quotient of two whole numbers is rounded once.
        error = np.abs(ns) * 2.0**-50
        is_certain: Bools = (np.abs(ns) < 2.0**45) & (np.abs(ns - np.floor(ns) - 0.5) > error)
    return masked(np.rint(ns) / 1e6, ~is_certain), is_certain


def _seconds_as_ms(text: str) -> float | None:
    number = decimal_of(text, 9, 19)
    if number is not None:
        return float(number * 1000)
    number_of_seconds = _double(text)
    return None if number_of_seconds is None else number_of_seconds * 1000


def decimal_of(text: str, places: int, whole_digits: int) -> Decimal | None:
    """Return a number with so many digits, rounded; None for what has more before the point."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if number and number.adjusted() >= whole_digits:
        return None
    with localcontext(prec=80):
        return number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def is_number(column: pa.Array | pa.ChunkedArray, name: str) -> Bools:
    """Return which values are finite numbers, or the text of one."""
    array = one_chunk(column)
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        return np.zeros(len(array), dtype=bool)
    finite: Bools = np.isfinite(floats(numbers_of(array, name), null=np.nan))
    return finite


def with_others(
    converted: pa.Array,
    text: pa.StringArray,
    is_done: pa.BooleanArray,
    convert: Callable[[str], Any],
    kind: pa.DataType,
) -> pa.Array:
    """Convert the texts that are not done, one distinct value at a time."""
    at = np.flatnonzero(~bools(is_done) & bools(text.is_valid()))
    if not len(at):
        return converted
    encoded = text.take(pa.array(at)).dictionary_encode()
    values = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], kind)
    others = values.take(encoded.indices)
    place = np.full(len(text), len(at))
    place[at] = np.arange(len(at))
    scattered = others.take(pa.array(place, mask=place == len(at)))
    return pc.if_else(pa.array(place < len(at)), scattered, converted)


def bools(column: pa.BooleanArray) -> Bools:
    """Return a column of booleans, false for null."""
    if column.null_count:
        column = pc.fill_null(column, False)
    given: Bools = column.to_numpy(zero_copy_only=False)
    return given.copy() if not given.flags.writeable else given


def masked(values: Any, is_null: Bools) -> pa.Array:
    """Return numbers as a column, which shares their memory if none is null."""
    return pa.array(values, mask=is_null) if is_null.any() else pa.array(values)


def floats(column: pa.DoubleArray, *, null: float = 0.0) -> Floats:
    given: Floats = pc.fill_null(column, null).to_numpy()
    return given
