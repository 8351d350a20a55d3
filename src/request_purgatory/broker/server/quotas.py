"""Quotas.

How many bytes a second each client id may produce and fetch, and for how long one that took more is
left unread.
"""

from __future__ import annotations

from collections import deque


class SampledRate:
    """A rate over the last few windows, as Kafka's `Rate` with `SampledStat` reckons it.

    Amounts are summed by windows of `window_ms`; the rate is what the windows kept have together,
    over the time since the oldest began, to which the windows are added that are missing, as if
    nothing had been counted in them.
    """

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        # [begin in ms, last count in ms, amount]; one more than there are windows, since the oldest
        # may overlap their beginning.
        self._samples: deque[list[float]] = deque(maxlen=windows + 1)

    def add(self, amount: float, now_ms: int) -> None:
        """Count an amount."""
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, now_ms, 0.0])
        self._samples[-1][1] = now_ms
        self._samples[-1][2] += amount

    def span_ms(self, now_ms: int) -> int:
        """The time that the rate is over."""
        self._forget(now_ms)
        elapsed_ms = now_ms - int(self._samples[0][0]) if self._samples else 0
        missing = max(0, self._windows - 1 - elapsed_ms // self._window_ms)
        return elapsed_ms + missing * self._window_ms

    def per_second(self, now_ms: int) -> float:
        """The rate as of now."""
        span_ms = self.span_ms(now_ms)
        return sum(amount for _, _, amount in self._samples) * 1_000 / span_ms

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][1] >= self._windows * self._window_ms:
            self._samples.popleft()

    @property
    def is_empty(self) -> bool:
        """True if nothing was counted in the last windows that were looked at."""
        return not self._samples


class ByteRateQuota:
    """The rates of all clients in one direction, against one limit."""

    #: So many clients are remembered before those that have been silent are forgotten.
    CLIENTS = 10_000

    def __init__(self, bytes_per_second: float | None, windows: int, window_ms: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._windows = windows
        self._window_ms = window_ms
        self._rates: dict[str, SampledRate] = {}

    def throttle_ms(self, client_id: str, size_bytes: int, now_ms: int) -> int:
        """Count bytes of a client, and tell for how many milliseconds to leave it unread: 0 while it keeps to its rate.

        As in Kafka: long enough for the rate to come down to the limit, if it counts nothing
        meanwhile.
        """
        limit = self.bytes_per_second
        if limit is None:
            return 0
        rate = self._rates.get(client_id)
        if rate is None:
            if len(self._rates) >= self.CLIENTS:
                self._forget_silent(now_ms)
            rate = self._rates[client_id] = SampledRate(self._windows, self._window_ms)
        rate.add(size_bytes, now_ms)
        per_second = rate.per_second(now_ms)
        if per_second <= limit:
            return 0
        span_ms = rate.span_ms(now_ms)
        return round((per_second - limit) / limit * span_ms) if limit > 0 else span_ms

    def _forget_silent(self, now_ms: int) -> None:
        for client_id, rate in list(self._rates.items()):
            rate.per_second(now_ms)
            if rate.is_empty:
                del self._rates[client_id]
        while len(self._rates) >= self.CLIENTS:
            del self._rates[next(iter(self._rates))]
