"""A long-poll HTTP service: clients wait for the next events of a topic, or get 204 when time is up.

    python examples/long_poll.py [port]

    curl 'http://localhost:8080/topics/news?after=0&timeout=20'      # waits
    curl -d 'it rains' 'http://localhost:8080/topics/news'           # answers everybody who waits

`GET /topics/{topic}?after=N&timeout=S` answers with the topic's events from number N on, as soon as
there are any. Each client that waits is one request in the purgatory: no task polls, no timer is
kept but the purgatory's one, and a client that hangs up leaves at once. When the service stops,
clients that wait get 503 at once. Needs aiohttp.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.typedefs import Handler

from request_purgatory import PurgatoryClosedError
from request_purgatory.aio import Purgatory

MAX_TIMEOUT = 300.0

PURGATORY = web.AppKey("purgatory", Purgatory)
TOPICS = web.AppKey("topics", dict[str, list[str]])


async def wait_for_events(request: web.Request) -> web.Response:
    """The events from number `after` on; 204 if there are none after `timeout` seconds."""
    topic = request.match_info["topic"]
    try:
        after = int(request.query.get("after", "0"))
        timeout = float(request.query.get("timeout", "30"))
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from None
    if after < 0 or not 0 <= timeout <= MAX_TIMEOUT:
        raise web.HTTPBadRequest(
            text=f"after must be at least 0 and timeout from 0 to {MAX_TIMEOUT}, got {after} and {timeout}"
        )
    topics = request.app[TOPICS]
    try:
        # A look at `topics[topic]` itself would make a list for everything that anybody ever asked
        # for.
        events = await request.app[PURGATORY].hold(
            [topic], until=lambda: topics.get(topic, [])[after:], timeout=timeout
        )
    except TimeoutError:
        return web.Response(status=204)
    return web.json_response({"events": events, "next": after + len(events)})


async def add_event(request: web.Request) -> web.Response:
    """Append the body to the topic, and answer those who wait for it."""
    topic = request.match_info["topic"]
    events = request.app[TOPICS][topic]
    events.append(await request.text())
    request.app[PURGATORY].notify(topic)
    return web.json_response({"number": len(events) - 1})


async def count_waiting(request: web.Request) -> web.Response:
    """How many clients wait now, and what became of the others."""
    metrics = request.app[PURGATORY].metrics()
    return web.json_response(
        {
            "waiting": metrics.num_delayed_operations,
            "answered": metrics.completions,
            "timed_out": metrics.expirations,
            "hung_up": metrics.cancellations,
        }
    )


@web.middleware
async def refuse_while_stopping(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 503 for what needs the purgatory after its end, clients that it still held included."""
    try:
        return await handler(request)
    except PurgatoryClosedError:
        return web.Response(status=503, text="the service is stopping")


async def close_purgatory(app: web.Application) -> None:
    """End every held request: aiohttp waits for the handlers before it leaves `keep_purgatory`."""
    app[PURGATORY].close()


async def keep_purgatory(app: web.Application) -> AsyncIterator[None]:
    """One purgatory for the service's life."""
    async with Purgatory("long-poll") as purgatory:
        app[PURGATORY] = purgatory
        yield


def make_app() -> web.Application:
    """The service."""
    app = web.Application(middlewares=[refuse_while_stopping])
    app[TOPICS] = defaultdict(list)
    app.cleanup_ctx.append(keep_purgatory)
    app.on_shutdown.append(close_purgatory)
    app.router.add_get("/topics/{topic}", wait_for_events)
    app.router.add_post("/topics/{topic}", add_event)
    app.router.add_get("/waiting", count_waiting)
    return app


if __name__ == "__main__":
    # With `handler_cancellation` a client that hangs up cancels its handler, and so leaves the
    # purgatory.
    web.run_app(
        make_app(),
        host="127.0.0.1",
        port=int(sys.argv[1]) if len(sys.argv) > 1 else 8080,
        handler_cancellation=True,
        access_log=None,
        backlog=10_000,
    )
