"""A long-poll HTTP service: clients wait for a topic's next events, or get 204 after a timeout.

    python examples/long_poll.py [port]

    curl 'http://localhost:8080/topics/news?after=0&timeout=20'      # waits
    curl -d 'it rains' 'http://localhost:8080/topics/news'           # answers all waiting clients

`GET /topics/{topic}?after=N&timeout=S` responds with the topic's events from number N on, as soon
as there are any. Each waiting client is one request in the purgatory: no task polls, all timeouts
share one timer, and a client that disconnects is removed immediately. When the service stops,
waiting clients get 503. Needs aiohttp.
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
    """Respond with the events from number `after` on, or with 204 after `timeout` seconds.

    Args:
        request: The request; its query has `after` (default 0) and `timeout` (default 30).

    Returns:
        The events, and the number of the next one.

    Raises:
        HTTPBadRequest: `after` or `timeout` is not a number, or out of range.
    """
    topic = request.match_info["topic"]
    try:
        after = int(request.query.get("after", "0"))
        timeout = float(request.query.get("timeout", "30"))
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from None
    if after < 0 or not 0 <= timeout <= MAX_TIMEOUT:
        raise web.HTTPBadRequest(
            text=f"after must be at least 0 and timeout from 0 to {MAX_TIMEOUT}, "
            f"got {after} and {timeout}"
        )
    topics = request.app[TOPICS]
    try:
        # `topics[topic]` would create a list for every topic that a client asks for.
        events = await request.app[PURGATORY].hold(
            [topic], until=lambda: topics.get(topic, [])[after:], timeout=timeout
        )
    except TimeoutError:
        return web.Response(status=204)
    return web.json_response({"events": events, "next": after + len(events)})


async def add_event(request: web.Request) -> web.Response:
    """Append the body to the topic, and respond to the clients that wait for the topic.

    Args:
        request: The request, whose body is the event.

    Returns:
        The event's number.
    """
    topic = request.match_info["topic"]
    events = request.app[TOPICS][topic]
    events.append(await request.text())
    request.app[PURGATORY].notify(topic)
    return web.json_response({"number": len(events) - 1})


async def count_waiting(request: web.Request) -> web.Response:
    """Respond with the number of waiting clients, and of clients by outcome.

    Args:
        request: The request.

    Returns:
        The numbers.
    """
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
    """Respond with 503 to requests that need the purgatory while the service stops.

    Args:
        request: The request.
        handler: Its handler.

    Returns:
        The handler's response, or 503.
    """
    try:
        return await handler(request)
    except PurgatoryClosedError:
        return web.Response(status=503, text="the service is stopping")


async def close_purgatory(app: web.Application) -> None:
    """End all held requests, as aiohttp waits for their handlers before it cleans up."""
    app[PURGATORY].close()


async def keep_purgatory(app: web.Application) -> AsyncIterator[None]:
    """Open the purgatory for the lifetime of the service."""
    async with Purgatory("long-poll") as purgatory:
        app[PURGATORY] = purgatory
        yield


def make_app() -> web.Application:
    """Return the application."""
    app = web.Application(middlewares=[refuse_while_stopping])
    app[TOPICS] = defaultdict(list)
    app.cleanup_ctx.append(keep_purgatory)
    app.on_shutdown.append(close_purgatory)
    app.router.add_get("/topics/{topic}", wait_for_events)
    app.router.add_post("/topics/{topic}", add_event)
    app.router.add_get("/waiting", count_waiting)
    return app


if __name__ == "__main__":
    # `handler_cancellation`: a client that disconnects cancels its handler, and so its hold.
    web.run_app(
        make_app(),
        host="127.0.0.1",
        port=int(sys.argv[1]) if len(sys.argv) > 1 else 8080,
        handler_cancellation=True,
        access_log=None,
        backlog=10_000,
    )
