"""Convert columns of any type to the fields of a trace, where no value changes.

pandas writes whole numbers with nulls as floats, CSV has text only, and tables of databases have
bigints and decimals. A value that would change is a reason to reject its row. Text has the forms
that Spark's casts know: the usual ones are converted by Arrow, others one distinct value at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.times import MAX_DURATION_MS, MAX_TIME_US, MIN_TIME_US, US_PER_UNIT
from purgatory_spark._spark.arrays import Bools, Floats, Ints, one_chunk, text_of_strings

#: Doubles below have all whole numbers.
_EXACT_DOUBLE = 2.0**53
_INT64 = 2**63
_BLANK = " "
_REPLACED = "\ufffd"

_WHOLE = r"^-?\d{1,18}$"
_FIXED = r"^-?\d{1,15}\.\d{1,9}$"
_DOUBLE = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
#: Floats that Spark writes without an exponent.
_PLAIN_FLOAT = r"^(0|-?[1-9]\d*|-?[1-9]\d{0,6}\.\d+|-?0\.0{0,2}[1-9]\d*)$"
_DAY = r"^\d{4}-\d\d-\d\d"
_LOCAL_TIME = _DAY + r"([T ]\d\d:\d\d:\d\d(\.\d{1,6})?)?$"
_ZONED_TIME = _DAY + r"[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
#: Where a time has its second colon, as in 2026-03-02 09:00:00.
_SECOND_COLON = 16
#: The end of a fraction of a time, which Spark leaves out.
_ZEROS = r"\.?0+$"
#: A date, or a date and a time, that ends without a zone.
_ZONELESS = r"^\s*\d{4}-\d[\d-]*([T ]+[\d:.]*)?\s*$"
#: Digits of a time's fraction that are less than a microsecond.
_BELOW_US = r"^(\s*\d{4}-\d[^.]*\.\d{6})\d+"

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
_MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{1,2})"
    r"(?::(\d{1,2})(?:\.(\d*))?\s*([^\d\s].*)?)?)?)?)?"
)
#: As logs of web servers have them: 02/Mar/2026:09:00:00 +0100.
_LOG_TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2}):?(\d{2})?(?::?(\d{2}))?")
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    return _with_others(text, text, is_plain, _java_text, pa.string())


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
    return _with_others(plain, text, plain.is_valid(), _double, pa.float64())


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
    return _with_others(ms, text, pa.array(is_certain), _seconds_as_ms, pa.float64())


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
    number = _decimal(text, 9, 19)
    if number is not None:
        return float(number * 1000)
    number_of_seconds = _double(text)
    return None if number_of_seconds is None else number_of_seconds * 1000


def times_us(column: pa.Array | pa.ChunkedArray, unit: str, name: str) -> pa.Int64Array:
    """Return a column of times as microseconds since the epoch, rounded down; null for no times.

    Times without a zone are in UTC. As in Spark's cast, parts of an ISO 8601 time may be missing.
    """
    array = one_chunk(column)
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _timestamps_us(array, kind.unit)
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("us")).cast(pa.int64())
    if unit != "iso" and pa.types.is_signed_integer(kind):
        return _whole_us(array.cast(pa.int64()), unit)
    text = plain_text(array, name)
    if pa.types.is_string(kind) and _have_seconds(text):
        try:
            times = _zoned_times_us(text)
        except pa.ArrowInvalid:
            # Not all of them are times with a zone.
            pass
        else:
            # Of the year 0, for example, only some forms are times.
            given: Ints = times.to_numpy()
            if ((given >= MIN_TIME_US) & (given <= MAX_TIME_US)).all():
                return times
    found, is_known = pa.nulls(len(text), pa.int64()), bools(text.is_null())

    def add(pattern: str, convert: Callable[[pa.StringArray], pa.Int64Array]) -> None:
        nonlocal found
        if is_known.all():
            return
        matches = bools(pc.match_substring_regex(text, pattern)) & ~is_known
        if not matches.any():
            return
        try:
            converted = convert(pc.if_else(pa.array(matches), text, None))
        except pa.ArrowInvalid:
            # A day that no month has: each value by itself.
            return
        found = pc.coalesce(found, converted)
        is_known[matches] = True

    if unit != "iso":
        add(_WHOLE, lambda texts: _whole_us(texts.cast(pa.int64()), unit))
        if unit != "ns":
            add(_FIXED, lambda texts: _fixed_us(texts, unit))
    if not is_known.all() and pc.any(pc.match_substring_regex(text, _BELOW_US)).as_py():
        text = pc.replace_substring_regex(text, _BELOW_US, r"\1")
    if pa.types.is_string(kind):
        add(_ZONED_TIME, _zoned_times_us)
        add(_LOCAL_TIME, lambda texts: texts.cast(pa.timestamp("us")).cast(pa.int64()))
    return _with_others(
        found, text, pa.array(is_known), lambda value: _any_us(value, unit), pa.int64()
    )


def _have_seconds(text: pa.StringArray) -> bool:
    """Return whether all texts have a colon where times with seconds have the second one.

    Arrow converts times with a zone and without seconds, too.
    """
    text_bytes, starts = text_of_strings(text)
    colons = starts[:-1] + _SECOND_COLON
    return not text.null_count and bool(
        (np.diff(starts) > _SECOND_COLON).all() and (text_bytes[colons] == ord(":")).all()
    )


def _zoned_times_us(text: pa.StringArray) -> pa.Int64Array:
    return text.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def is_local(column: pa.Array | pa.ChunkedArray, name: str) -> pa.BooleanArray:
    """Return which times have no zone of their own."""
    array = one_chunk(column)
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.repeat(pa.types.is_date(kind) or kind.tz is None, len(array))
    if not pa.types.is_string(kind):
        return pa.repeat(False, len(array))
    return pc.match_substring_regex(text_of(array, name), _ZONELESS)


def zoned_us(
    times: pa.Int64Array, local: pa.BooleanArray, zone: str
) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return local times of a zone as microseconds since the epoch, and the second ones.

    A time that the zone skips becomes null. One that it has twice has a second time; others have
    null there. Times that are not local, or of no accepted year, are as they were.
    """
    given = pc.fill_null(times, 0).to_numpy()
    is_near = (given > MIN_TIME_US - _DAY_US) & (given < MAX_TIME_US + _DAY_US)
    is_zoned = pa.array(bools(local) & is_near & bools(times.is_valid()))
    zoneless = pc.if_else(is_zoned, times, None).cast(pa.timestamp("us"))
    first, second = (
        pc.assume_timezone(zoneless, zone, ambiguous=which, nonexistent=which)
        for which in ("earliest", "latest")
    )
    is_skipped = pc.fill_null(pc.not_equal(pc.local_timestamp(first), zoneless), False)
    first, second = first.cast(pa.int64()), second.cast(pa.int64())
    is_twice = pc.and_not(pc.greater(second, first), is_skipped)
    chosen = pc.if_else(is_zoned, pc.if_else(is_skipped, None, first), times)
    return chosen, pc.if_else(is_twice, second, None)


def _timestamps_us(array: pa.Array, unit: str) -> pa.Int64Array:
    number = array.cast(pa.int64())
    if unit == "ns":
        return _whole_us(number, "ns")
    return _whole_us(number, unit)


def _whole_us(numbers: pa.Int64Array, unit: str) -> pa.Int64Array:
    is_null = bools(numbers.is_null())
    given: Ints = pc.fill_null(numbers, 0).to_numpy()
    if unit == "ns":
        return masked(given // 1000, is_null)
    scale = int(US_PER_UNIT[unit])
    limit = (_INT64 - 1) // scale
    return masked(given * scale, is_null | (given > limit) | (given < -limit))


def _fixed_us(texts: pa.StringArray, unit: str) -> pa.Int64Array:
    scale = pa.scalar(Decimal(int(US_PER_UNIT[unit])), pa.decimal128(7, 0))
    numbers = pc.multiply(texts.cast(pa.decimal128(28, 9)), scale)
    return pc.cast(pc.floor(numbers), pa.int64())


def _any_us(text: str, unit: str) -> int | None:
    number = _number_us(text, unit) if unit != "iso" else None
    if number is not None:
        return number
    moment = _moment(text.strip())
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _number_us(text: str, unit: str) -> int | None:
    number = _decimal(text, 6, 32) if unit == "ns" else _decimal(text, 9, 19)
    if number is None:
        return None
    with localcontext(prec=80):
        if unit == "ns":
            number = (number / 1000).quantize(Decimal("1e-6"), ROUND_HALF_UP)
        else:
            number *= int(US_PER_UNIT[unit])
        whole = int(number.to_integral_value(ROUND_FLOOR))
    return whole if -_INT64 <= whole < _INT64 else None


def _decimal(text: str, places: int, whole_digits: int) -> Decimal | None:
    """Return a number with so many digits, rounded; None for what has more before the point."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if number and number.adjusted() >= whole_digits:
        return None
    with localcontext(prec=80):
        return number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def _moment(text: str) -> datetime | None:
    """Return the time that a text is, in the forms that Spark's cast knows."""
    try:
        if _LOG_TIME.fullmatch(text):
            return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")
        found = _MOMENT.fullmatch(text)
        if found is None:
            return None
        *parts, fraction, zone = found.groups()
        year, month, day, hour, minute, second = (int(part or 0) for part in parts)
        us = int(((fraction or "") + "000000")[:6])
        local = datetime(year, month, day if parts[2] else 1, hour, minute, second, us)
        return local.replace(tzinfo=_zone(zone or "Z"))
    except (ValueError, LookupError, OSError, OverflowError):
        return None


def _zone(text: str) -> Any:
    text = text.strip()
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=hours, minutes=minutes, seconds=seconds))
    return UTC if text in ("Z", "UTC", "GMT", "UT") else ZoneInfo(text)


def is_number(column: pa.Array | pa.ChunkedArray, name: str) -> Bools:
    """Return which values are finite numbers, or the text of one."""
    array = one_chunk(column)
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        return np.zeros(len(array), dtype=bool)
    finite: Bools = np.isfinite(floats(numbers_of(array, name), null=np.nan))
    return finite


def add_ms(times: pa.Int64Array, durations: pa.DoubleArray, sign: int = 1) -> pa.Int64Array:
    """Add durations to times, rounded up; null for a duration that is null or too long."""
    ms = sign * floats(durations, null=np.nan)
    is_known = np.abs(ms) < MAX_DURATION_MS
    us = np.where(is_known, ms, 0.0) * 1000
    whole_us = np.rint(us)
    # 2.007 ms are 2,007 us, of which the product of doubles has more.
    is_whole = np.abs(us - whole_us) <= np.abs(us) * 2.0**-50
    duration_us = np.where(is_whole, whole_us, np.ceil(us)).astype(np.int64)
    given: Ints = pc.fill_null(times, 0).to_numpy()
    # Times may be any number.
    total = given + duration_us
    overflows = ((given ^ total) & (duration_us ^ total)) < 0
    return masked(total, ~is_known | overflows | bools(times.is_null()))


def _with_others(
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
