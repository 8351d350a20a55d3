"""The bins of a timeline."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

#: Maximum number of bins in a timeline.
MAX_BINS = 250


@dataclass(frozen=True)
class TimeBins:
    """The bins of a timeline, which begin at whole multiples of their width since the epoch."""

    first: int
    last: int
    width_us: int

    @classmethod
    def covering(cls, first_us: int, last_us: int) -> TimeBins:
        """Return bins of a round width that cover a span."""
        width_us = bin_width_us(last_us - first_us)
        return cls(first_us // width_us, last_us // width_us, width_us)

    def number_of(self, time: Column) -> Column:
        """Return the bin of each time: `first` - 1 if it is earlier, `last` + 1 if it is later."""
        us = F.unix_micros(time)
        # Quotients of whole multiples are exact in doubles; others may round up to the next bin.
        number = ((us - F.pmod(us, F.lit(self.width_us))) / self.width_us).cast("bigint")
        return F.greatest(F.lit(self.first - 1), F.least(F.lit(self.last + 1), number))


def bin_width_us(span_us: int) -> int:
    """Choose a round width, at least 1 ms, such that at most `MAX_BINS` bins cover a span."""
    width = 1
    for candidate in _round_widths_us():
        width = candidate
        if span_us // width < MAX_BINS:
            break
    return width


def _round_widths_us() -> list[int]:
    below_a_minute = [digit * 10**power for power in range(3, 8) for digit in (1, 2, 5)]
    above = [minutes * 60_000_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)]
    widths = [width for width in below_a_minute if width < 60_000_000] + above
    return widths + [1440 * 60_000_000 * 2**power for power in range(1, 20)]
