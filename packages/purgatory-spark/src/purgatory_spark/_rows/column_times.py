"""Convert columns of times and durations to microseconds since the epoch."""

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

from purgatory_spark._rows.column_values import (
    FIXED,
    INT64,
    WHOLE,
    bools,
    decimal_of,
    floats,
    masked,
    plain_text,
    text_of,
    with_others,
)
from purgatory_spark._rows.times import MAX_DURATION_MS, MAX_TIME_US, MIN_TIME_US, US_PER_UNIT
from purgatory_spark._spark.arrays import Ints, one_chunk, text_of_strings

_DAY = r"^\d{4}-\d\d-\d\d"
_LOCAL_TIME = _DAY + r"([T ]\d\d:\d\d:\d\d(\.\d{1,6})?)?$"
_ZONED_TIME = _DAY + r"[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
#: Where a time has its second colon, as in 2026-03-02 09:00:00.
_SECOND_COLON = 16
#: A date, or a date and a time, that ends without a zone.
_ZONELESS = r"^\s*\d{4}-\d[\d-]*([T ]+[\d:.]*)?\s*$"
#: Digits of a time's fraction that are less than a microsecond.
_BELOW_US = r"^(\s*\d{4}-\d[^.]*\.\d{6})\d+"
_MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{1,2})"
    r"(?::(\d{1,2})(?:\.(\d*))?\s*([^\d\s].*)?)?)?)?)?"
)
#: As logs of web servers have them: 02/Mar/2026:09:00:00 +0100.
_LOG_TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2}):?(\d{2})?(?::?(\d{2}))?")
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    if pa.types.is_string(kind) and len(text) and _have_seconds(text):
        # Most columns are all of one form.
        is_zoned = re.match(_ZONED_TIME, text[0].as_py())
        try:
            times = (_zoned_times_us if is_zoned else _local_times_us)(text)
        except pa.ArrowInvalid:
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
        add(WHOLE, lambda texts: _whole_us(texts.cast(pa.int64()), unit))
        if unit != "ns":
            add(FIXED, lambda texts: _fixed_us(texts, unit))
    if not is_known.all() and pc.any(pc.match_substring_regex(text, _BELOW_US)).as_py():
        text = pc.replace_substring_regex(text, _BELOW_US, r"\1")
    if pa.types.is_string(kind):
        add(_ZONED_TIME, _zoned_times_us)
        add(_LOCAL_TIME, _local_times_us)
    return with_others(
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


def _local_times_us(text: pa.StringArray) -> pa.Int64Array:
    return text.cast(pa.timestamp("us")).cast(pa.int64())


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
    limit = (INT64 - 1) // scale
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
    number = decimal_of(text, 6, 32) if unit == "ns" else decimal_of(text, 9, 19)
    if number is None:
        return None
    with localcontext(prec=80):
        if unit == "ns":
            number = (number / 1000).quantize(Decimal("1e-6"), ROUND_HALF_UP)
        else:
            number *= int(US_PER_UNIT[unit])
        whole = int(number.to_integral_value(ROUND_FLOOR))
    return whole if -INT64 <= whole < INT64 else None


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
