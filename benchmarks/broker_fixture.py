"""A test's cluster of one node: the processor time of the first of a process, and of each further.

The first includes the import of the broker. pytest and what it imports are there before.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import peers
from benchmarks.question import Case

QUESTION = "broker_fixture"
METRICS = {"first_cpu_ms": "ms", "further_cpu_ms": "ms"}
SIDES = (peers.OURS,)

_FURTHER = 20
_RUN = f"""
import argparse, asyncio, importlib.metadata, json, logging, pytest
from time import process_time

began = process_time()
from purgatory_broker import Cluster

def use() -> None:
    with Cluster(nodes=1) as cluster:
        assert cluster.bootstrap_servers

use()
first = process_time() - began
further = []
for _ in range({_FURTHER}):
    began = process_time()
    use()
    further.append(process_time() - began)
print(json.dumps([first, sorted(further)[{_FURTHER // 2}]]))
"""


def cases(quick: bool) -> list[Case]:  # noqa: ARG001 - the same for both
    """Return the one case."""
    return [Case({"nodes": 1}, 1)]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: the side runs the case."""
    return None


def measure(side: str, nodes: int) -> dict[str, float]:  # noqa: ARG001 - the only side and case
    """Measure in a process of its own, whose modules are compiled before."""
    command = [sys.executable, "-c", _RUN]
    for _ in range(2):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    first, further = json.loads(done.stdout)
    return {"first_cpu_ms": first * 1e3, "further_cpu_ms": further * 1e3}
