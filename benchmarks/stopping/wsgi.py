"""An application of Flask with a request that waits."""

from __future__ import annotations

import threading

from flask import Flask

from benchmarks.stopping.told import LIBRARY, WAIT_S, tell

app = Flask(__name__)

if LIBRARY:
    from request_purgatory import DelayedOperationPurgatory, PurgatoryClosedError
    from request_purgatory.servers import close_on_signal

    purgatory = DelayedOperationPurgatory("stopping")
    close_on_signal(purgatory)

    @app.get("/wait")
    def wait() -> tuple[str, int]:
        """Wait in the purgatory."""
        held = purgatory.hold(["key"], until=lambda: 0, timeout=WAIT_S)
        tell("waiting")
        try:
            held.result()
        except PurgatoryClosedError:
            return "", 503
        except TimeoutError:
            return "", 202
        return "", 500
else:

    @app.get("/wait")
    def wait() -> tuple[str, int]:
        """Wait on the thread."""
        tell("waiting")
        threading.Event().wait(WAIT_S)
        return "", 202


tell("imported")
