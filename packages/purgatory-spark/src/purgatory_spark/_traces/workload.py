"""Synthetic workloads: Poisson arrivals and log-normal service times, reproducible from a seed.

`CASES` has the two published workloads. `workload_blocks` draws the rows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from purgatory_spark._errors import require_at_least
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from request_purgatory.errors import InvalidArgumentError

#: Start of synthetic traces.
START = datetime(2024, 1, 1, tzinfo=UTC)

#: Distance of a normal distribution's 75th percentile from its median, in standard deviations.
_Z75 = 0.6744897501960817

#: Longer workloads could exceed the range of timestamps.
_MAX_DURATION_S = 100 * 365 * 86_400


@dataclass(frozen=True)
class Workload:
    """The parameters of a synthetic trace.

    Each request waits for one event on a key of its own, its acknowledgement. It is also watched
    under `shared_keys` keys of a pool, on which no event occurs. So a completed request stays in
    the watcher lists of these keys until it is purged. The benchmark that Kafka's purgatory was
    published with has the same design.

    Attributes:
        name: Name in reports.
        median_ms: Median of the service times, which are log-normal.
        p75_ms: 75th percentile of the service times.
        requests: Number of requests, over all hosts.
        rate: Arrivals per second, over all hosts.
        hosts: Number of processes that the requests are spread over, uniformly at random.
        keys: Size of each host's pool of shared keys.
        shared_keys: Number of shared keys that each request is watched under, 0 for none.
        timeout_ms: Timeout of every request.
        amount: Amount of each event, in bytes.
        seed: Seed of all random numbers.
        host_by_host: Draw every host as a Poisson process of its own, with an equal share of the
            requests and of the rate, from (seed, host, block). So a host's trace can be made in
            blocks and without those of other hosts. Otherwise all arrivals are one process, and
            each is assigned to a random host.
    """

    name: str = "low"
    median_ms: float = 20.0
    p75_ms: float = 60.0
    requests: int = 1_000_000
    rate: float = 20_000.0
    hosts: int = 8
    keys: int = 1_000
    shared_keys: int = 2
    timeout_ms: int = 200
    amount: float = 100.0
    seed: int = 1
    host_by_host: bool = False

    def __post_init__(self) -> None:
        require_at_least(1, requests=self.requests, hosts=self.hosts, keys=self.keys)
        require_at_least(
            0, shared_keys=self.shared_keys, timeout_ms=self.timeout_ms, seed=self.seed
        )
        if self.host_by_host and self.requests % self.hosts:
            raise InvalidArgumentError(
                "requests", f"a multiple of the hosts ({self.hosts:,})", self.requests
            )
        if self.timeout_ms > MAX_TIMEOUT_MS:
            raise InvalidArgumentError("timeout_ms", f"at most {MAX_TIMEOUT_MS:,}", self.timeout_ms)
        if self.seed >= 2**64:
            raise InvalidArgumentError("seed", "below 2**64", self.seed)
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise InvalidArgumentError(
                "rate", "a positive number of requests per second", self.rate
            )
        if self.requests / self.rate > _MAX_DURATION_S:
            raise InvalidArgumentError(
                "rate", f"enough for {self.requests:,} requests in 100 years", self.rate
            )
        if not 0 < self.median_ms < self.p75_ms:
            raise InvalidArgumentError(
                "median_ms", f"positive and below p75_ms ({self.p75_ms})", self.median_ms
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the service time's logarithm."""
        return math.log(self.p75_ms / self.median_ms) / _Z75

    @property
    def expected_expired_share(self) -> float:
        """Expected share of requests that expire, whose service time is longer than the timeout."""
        if self.timeout_ms == 0:
            return 1.0
        z = (math.log(self.timeout_ms) - math.log(self.median_ms)) / self.sigma
        return 0.5 * math.erfc(z / math.sqrt(2))

    @property
    def expected_wait_ms(self) -> float:
        """Expected wait of a request in ms, as the mean of min(service time, timeout)."""
        if self.timeout_ms == 0:
            return 0.0
        z = (math.log(self.timeout_ms) - math.log(self.median_ms)) / self.sigma
        served_in_time = 0.5 * math.erfc((self.sigma - z) / math.sqrt(2))
        return (
            self.expected_service_ms * served_in_time
            + self.timeout_ms * self.expected_expired_share
        )

    @property
    def expected_service_ms(self) -> float:
        """Mean of the service time's distribution, in ms."""
        return self.median_ms * math.exp(self.sigma**2 / 2)

    def parameters(self) -> dict[str, Any]:
        """Return all fields by name, for manifests."""
        return asdict(self)


#: The two published workloads. With service times of 20 ms (median) and 60 ms (75th percentile),
#: about 8 % of the requests reach the timeout of 200 ms; with 200 and 400 ms, half of them.
LOW_TIMEOUT = Workload(name="low", median_ms=20.0, p75_ms=60.0)
HIGH_TIMEOUT = Workload(name="high", median_ms=200.0, p75_ms=400.0)
CASES = {case.name: case for case in (LOW_TIMEOUT, HIGH_TIMEOUT)}


def cluster_workload(
    case: Workload, *, hosts: int, requests_per_host: int, rate_per_host: float, **overrides: Any
) -> Workload:
    """Scale a workload to a cluster whose hosts are drawn independently (`host_by_host`)."""
    if not (rate_per_host > 0 and math.isfinite(rate_per_host)):
        raise InvalidArgumentError(
            "rate_per_host", "a positive number of requests per second", rate_per_host
        )
    require_at_least(1, hosts=hosts, requests_per_host=requests_per_host)
    requests, rate = hosts * requests_per_host, hosts * rate_per_host
    return replace(case, hosts=hosts, requests=requests, rate=rate, host_by_host=True, **overrides)


def host_name(workload: Workload, host: int) -> str:
    """Return the name of a host, with leading zeros so that names sort by number."""
    return f"host-{host:0{len(str(workload.hosts - 1))}d}"
