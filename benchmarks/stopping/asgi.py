"""An application of FastAPI with a request that waits."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Response

from benchmarks.stopping.told import LIBRARY, WAIT_S, tell

if LIBRARY:
    from request_purgatory import PurgatoryClosedError
    from request_purgatory.aio import Purgatory
    from request_purgatory.servers import lifespan

    purgatory = Purgatory("stopping")
    app = FastAPI(lifespan=lifespan(purgatory))

    @app.get("/wait")
    async def wait() -> Response:
        """Wait in the purgatory."""
        held = purgatory.hold(["key"], until=lambda: 0, timeout=WAIT_S)
        tell("waiting")
        try:
            await held
        except PurgatoryClosedError:
            return Response(status_code=503)
        except TimeoutError:
            pass
        return Response(status_code=202)
else:
    app = FastAPI()

    @app.get("/wait")
    async def wait() -> Response:
        """Wait on the loop."""
        tell("waiting")
        await asyncio.sleep(WAIT_S)
        return Response(status_code=202)


tell("imported")
