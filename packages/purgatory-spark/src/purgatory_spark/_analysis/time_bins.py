"""The bins of a timeline."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

#: Maximum number of bins in a timeline.
MAX_BINS = 250

_MINUTE_US = 60_000_000
#: Round widths: below a minute, up to a day, and doublings of that.
_WIDTHS_US: list[int] = [
    *[digit * 10**power for power in range(3, 8) for digit in (1, 2, 5)],
    *[minutes * _MINUTE_US for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)],
    *[1440 * _MINUTE_US * 2**power for power in range(1, 20)],
]


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

    def divided(self, parts: int) -> TimeBins:
        """Return these bins, each cut into equal parts; `parts` divides 1,000."""
        last = (self.last + 1) * parts - 1
        return TimeBins(self.first * parts, last, self.width_us // parts)

    def number_of(self, time: Column) -> Column:
        """Return the bin of each time: `first` - 1 if it is earlier, `last` + 1 if it is later."""
        us = F.unix_micros(time)
        # Quotients of whole multiples are exact in doubles; others may round up to the next bin.
        number = ((us - F.pmod(us, F.lit(self.width_us))) / self.width_us).cast("bigint")
        return F.greatest(F.lit(self.first - 1), F.least(F.lit(self.last + 1), number))


def bin_width_us(span_us: int) -> int:
    """Choose a round width, at least 1 ms, such that at most `MAX_BINS` bins cover a span."""
    return next((width for width in _WIDTHS_US if span_us // width < MAX_BINS), _WIDTHS_US[-1])
