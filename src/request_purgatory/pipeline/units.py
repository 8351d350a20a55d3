"""Numbers as people read them."""

from __future__ import annotations


def ms_text(ms: float) -> str:
    """Milliseconds in the unit that suits them: `1.5 ms`, `20 s`."""
    for unit, factor in (("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0), ("ms", 1.0)):
        # Hours and minutes only for what is whole in them: 90 s reads better than 1.5 min.
        if ms >= factor and (factor <= 1000 or ms % factor == 0):
            return f"{ms / factor:.3g} {unit}"
    return f"{ms * 1000:.3g} µs" if ms else "0"


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
