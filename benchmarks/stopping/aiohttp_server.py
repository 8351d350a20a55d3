"""An application of aiohttp with a request that waits, and its server."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from benchmarks.stopping.told import LIBRARY, WAIT_S, tell

app = web.Application()

if LIBRARY:
    from request_purgatory import PurgatoryClosedError
    from request_purgatory.aio import Purgatory
    from request_purgatory.servers import lifespan

    purgatory = Purgatory("stopping")
    app.cleanup_ctx.append(lifespan(purgatory))

    async def wait(_request: web.Request) -> web.Response:
        """Wait in the purgatory."""
        held = purgatory.hold(["key"], until=lambda: 0, timeout=WAIT_S)
        tell("waiting")
        try:
            await held
        except PurgatoryClosedError:
            return web.Response(status=503)
        except TimeoutError:
            pass
        return web.Response(status=202)
else:

    async def wait(_request: web.Request) -> web.Response:
        """Wait on the loop."""
        tell("waiting")
        await asyncio.sleep(WAIT_S)
        return web.Response(status=202)


app.router.add_get("/wait", wait)
tell("imported")
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]))
