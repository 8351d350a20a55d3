"""A cluster in a process of its own, for `ClusterProcess`.

Settings come in on standard input, which ends when it is to end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from request_purgatory.broker.cluster.admin_server import ControlServer
from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.errors import PurgatoryError


async def serve(settings: ClusterSettings, record: str | None) -> None:
    """Run a cluster until standard input ends.

    Tell on standard output where it is, in a line of JSON.
    """
    recorder = None if record is None else Recorder(Path(record))
    try:
        async with (
            AsyncCluster(settings, recorder=recorder) as cluster,
            ControlServer(cluster) as control,
        ):
            reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            print(
                json.dumps({"bootstrap": cluster.bootstrap, "control": control.address}), flush=True
            )
            while await reader.read(1_024):
                pass
    finally:
        if recorder is not None:
            recorder.close()


def settings_from(given: dict[str, Any]) -> ClusterSettings:
    """Settings out of JSON."""
    if given.get("data_dir") is not None:
        given["data_dir"] = Path(given["data_dir"])
    return ClusterSettings(**given)


def _first_line() -> bytes:
    """A line of standard input, and not a byte of what follows it."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 1)
        if not part:
            break
        line += part
    return line


def main() -> int:
    """Read the first line of standard input, and serve."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    given = json.loads(_first_line())
    try:
        asyncio.run(serve(settings_from(given["settings"]), given["record"]))
    except (PurgatoryError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
