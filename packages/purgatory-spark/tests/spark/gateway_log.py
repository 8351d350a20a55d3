"""The log of a gateway with failures, as a table: a row for each request."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: The gateway's timeout: a request that takes so long is answered with a 504.
TIMEOUT_MS = 2000
REQUESTS = 40_000
TIMED_OUT = 275
#: Of these 82 % are of one pod.
OF_ONE_POD = 226
POD = "pod-3"
PODS = 8
#: 2026-03-02 09:00 UTC.
_START_MS = 1_772_442_000_000


def gateway_log(seed: int = 7) -> pa.Table:
    """Return the columns `at` (ms since the epoch), `pod`, `status` and `took` (ms, text)."""
    random = np.random.default_rng(seed)
    at_ms = _START_MS + np.sort(random.integers(0, 3_600_000, REQUESTS))
    took_ms = np.minimum(random.lognormal(np.log(40), 0.9, REQUESTS), 1900).round(3)
    pods = random.integers(0, PODS, REQUESTS)
    failed = random.permutation(REQUESTS)[:TIMED_OUT]
    others = np.array([pod for pod in range(PODS) if f"pod-{pod}" != POD])
    pods[failed] = random.choice(others, TIMED_OUT)
    pods[failed[:OF_ONE_POD]] = int(POD.removeprefix("pod-"))
    took_ms[failed] = TIMEOUT_MS
    status = np.full(REQUESTS, 200)
    status[failed] = 504
    return pa.table(
        {
            "at": at_ms,
            "pod": [f"pod-{pod}" for pod in pods.tolist()],
            "status": status,
            "took": [f"{ms:.3f}" for ms in took_ms.tolist()],
        }
    )
