"""The process of a `ClusterProcess`: `python -m purgatory_broker.cluster.process_main`.

The first line of standard input is a JSON object with the settings. The cluster runs until there is
anything more, or standard input ends, which it also does when the parent process dies. A forked
child of the parent may have a copy of the pipe, and keep the end from coming.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from purgatory_broker.cluster.admin_server import ControlServer
from purgatory_broker.cluster.async_cluster import AsyncCluster, collecting_less
from purgatory_broker.cluster_options import settings_from
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import PurgatoryError


async def _serve(settings: ClusterSettings, record: str | None) -> None:
    """Run a cluster until standard input has something more, or ends.

    When the cluster has started, print a line of JSON with `bootstrap_servers` and `control`, the
    control server's address.

    Args:
        settings: the cluster's settings.
        record: the folder for a trace of the requests that wait; None records none.
    """
    with nullcontext() if record is None else Recorder(Path(record)) as recorder:
        async with (
            AsyncCluster(settings, recorder=recorder) as cluster,
            ControlServer(cluster) as control,
        ):
            reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            started = {"bootstrap_servers": cluster.bootstrap_servers, "control": control.address}
            print(json.dumps(started), flush=True)
            await reader.read(1)


def _read_first_line() -> bytes:
    """Return the first line of standard input, and leave every later byte unread."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 1)
        if not part:
            break
        line += part
    return line


def main() -> int:
    """Return the exit code: 1 if the cluster did not start or has failed, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    line = _read_first_line()
    if not line:
        return 1  # The parent was interrupted, or has died.
    given = json.loads(line)
    try:
        settings = settings_from(given["settings"].pop("nodes"), given["settings"])
        with collecting_less():
            asyncio.run(_serve(settings, given["record"]))
    except (PurgatoryError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
