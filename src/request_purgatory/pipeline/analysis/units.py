"""Numbers as people read them."""

from __future__ import annotations


def ms_text(ms: float) -> str:
    """Milliseconds in the unit that suits them, with three digits: `1.5 ms`, `90 s`, `2.78 h`."""
    if ms == 0:
        return "0"
    # Minutes and hours from two of them on: 90 s reads better than 1.5 min.
    for unit, factor in (("h", 3_600_000.0), ("min", 60_000.0)):
        if ms >= 2 * factor:
            return f"{_three_digits(ms / factor)} {unit}"
    for unit, factor in (("s", 1_000.0), ("ms", 1.0)):
        if ms >= factor:
            return f"{_three_digits(ms / factor)} {unit}"
    return f"{_three_digits(ms * 1000)} µs"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


def bytes_unit(count: float) -> tuple[str, int]:
    """The largest binary unit that `count` is at least one of, and how many bytes it is."""
    scale = 1
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < scale * 1024:
            return unit, scale
        scale *= 1024
    return "TiB", scale


def bytes_text(count: float) -> str:
    """Bytes with a binary prefix."""
    unit, scale = bytes_unit(count)
    return f"{count:.0f} B" if scale == 1 else f"{count / scale:.1f} {unit}"


def share_text(share: float) -> str:
    """A share as a percentage that does not hide small ones."""
    percent = share * 100
    if percent == 0 or percent >= 10:
        return f"{percent:.1f} %"
    return f"{percent:.2f} %" if percent >= 0.01 else f"{percent:.1g} %"
