"""Format numbers for people: durations, byte counts, shares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|\N{MICRO SIGN}s|ms|s|min|h|B|[KMGT]iB)(?!\w))")


def format_ms(ms: float) -> str:
    """Format a duration with three significant digits, such as `1.5 ms`, `90 s` or `2.78 h`."""
    if ms == 0:
        return "0"
    # Minutes and hours only from two of them on: 90 s reads better than 1.5 min.
    for unit, factor in (("h", 3_600_000.0), ("min", 60_000.0)):
        if ms >= 2 * factor:
            return f"{_three_digits(ms / factor)} {unit}"
    for unit, factor in (("s", 1_000.0), ("ms", 1.0)):
        if ms >= factor:
            return f"{_three_digits(ms / factor)} {unit}"
    return f"{_three_digits(ms * 1000)} \N{MICRO SIGN}s"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


#: Units of a column of times, and how many ms each has.
_UNITS = (("\N{MICRO SIGN}s", 0.001), ("ms", 1.0), ("s", 1000.0))


def common_unit(times_ms: Iterable[float]) -> tuple[str, float]:
    """Return a unit for all of these times, chosen by the middle one, and its length in ms."""
    known = sorted(time for time in times_ms if time > 0)
    middle = known[len(known) // 2] if known else 1.0
    return next((unit for unit in reversed(_UNITS) if middle >= unit[1]), _UNITS[0])


def format_in(time_ms: float, unit_ms: float) -> str:
    """Format a time as a number of a unit, with three digits or all that are before the point."""
    number = time_ms / unit_ms
    if number == 0 or number >= 99.95:
        return f"{number:,.0f}"
    if number < 0.001:
        return "<0.001"
    return f"{number:.{max(0, 2 - math.floor(math.log10(number)))}f}"


def binary_unit(count: float) -> tuple[str, int]:
    """Return the largest binary unit up to `count` bytes, `B` to `TiB`, and its size in bytes."""
    scale = 1
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < scale * 1024:
            return unit, scale
        scale *= 1024
    return "TiB", scale


def format_bytes(count: float) -> str:
    """Format a number of bytes with a binary prefix, such as `1023 B` or `1.5 KiB`."""
    unit, scale = binary_unit(count)
    return f"{count:.0f} B" if scale == 1 else f"{count / scale:.1f} {unit}"


def format_share(share: float) -> str:
    """Format a share, with more digits for small ones, such as `50.0 %`, `0.13 %` or `0.0001 %`."""
    percent = share * 100
    if percent == 0 or percent >= 10:
        return f"{percent:.1f} %"
    return f"{percent:.2f} %" if percent >= 0.01 else f"{percent:.1g} %"


def format_number(number: float) -> str:
    """Format a number with two digits or more, such as `0.012`, `56.8` or `1,234,568`."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2g}"


def unbroken(text: str) -> str:
    """Put a no-break space between each number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
