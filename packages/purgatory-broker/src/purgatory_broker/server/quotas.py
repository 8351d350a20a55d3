"""Quotas: the byte rates of client ids, and how long a client over its quota is throttled."""

from __future__ import annotations

from collections import deque


class SampledRate:
    """A rate over the last few windows, computed as in Kafka's `Rate` and `SampledStat`.

    Amounts are summed up in samples of `window_ms`. The rate is the sum of the samples, divided by
    the time since the oldest sample began. If there are fewer samples than windows, the missing
    ones count as windows without amounts.
    """

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        # [begin in ms, last addition in ms, amount]. One more than there are windows, since the
        # oldest may have begun before the first window.
        self._samples: deque[list[float]] = deque(maxlen=windows + 1)

    def add(self, amount: float, now_ms: int) -> None:
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, now_ms, 0.0])
        self._samples[-1][1] = now_ms
        self._samples[-1][2] += amount

    def span_ms(self, now_ms: int) -> int:
        """Return the time that the rate is computed over, in milliseconds."""
        while self._samples and now_ms - self._samples[0][1] >= self._windows * self._window_ms:
            self._samples.popleft()
        elapsed_ms = now_ms - int(self._samples[0][0]) if self._samples else 0
        missing = max(0, self._windows - 1 - elapsed_ms // self._window_ms)
        return elapsed_ms + missing * self._window_ms

    def per_second(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return sum(amount for _, _, amount in self._samples) * 1_000 / span_ms

    @property
    def is_empty(self) -> bool:
        return not self._samples


class ByteRateQuota:
    #: The most clients whose rates are kept; beyond it, inactive ones are removed.
    MAX_CLIENTS = 10_000

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._rates: dict[tuple[str, str], SampledRate] = {}

    def throttle_ms(
        self, shared_by: tuple[str, str], limit: float, size_bytes: int, now_ms: int
    ) -> int:
        """Return, as Kafka, when the rate is down to the limit if no bytes are added."""
        rate = self._rates.get(shared_by)
        if rate is None:
            if len(self._rates) >= self.MAX_CLIENTS:
                self._remove_inactive(now_ms)
            rate = self._rates[shared_by] = SampledRate(self._windows, self._window_ms)
        rate.add(size_bytes, now_ms)
        per_second = rate.per_second(now_ms)
        if per_second <= limit:
            return 0
        span_ms = rate.span_ms(now_ms)
        return round((per_second - limit) / limit * span_ms) if limit > 0 else span_ms

    def _remove_inactive(self, now_ms: int) -> None:
        for shared_by, rate in list(self._rates.items()):
            rate.per_second(now_ms)
            if rate.is_empty:
                del self._rates[shared_by]
        while len(self._rates) >= self.MAX_CLIENTS:
            del self._rates[next(iter(self._rates))]
