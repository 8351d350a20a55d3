"""One connection of a browser: the page itself, its stream of events, or an action."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import logging
import re
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from request_purgatory.dashboard._http_request import HttpRequest, RequestError, read_request
from request_purgatory.dashboard.feed import MAX_PAGES, Feed
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import PurgatoryError

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

#: How many characters of an unforeseen exception the page gets.
_MAX_MESSAGE = 500
#: Seconds for a client to send its request, and to take what it is sent.
_TIMEOUT = 20.0
_EVERY_RESPONSE = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, feed: Feed
) -> None:
    try:
        async with asyncio.timeout(_TIMEOUT):
            try:
                request = await read_request(reader)
                request.check_host()
            except RequestError as error:
                await _send_error(writer, error)
                return
        await _answer(request, reader, writer, feed)
    except (ConnectionError, TimeoutError, asyncio.IncompleteReadError) as error:
        logger.debug("a client has gone: %r", error)


async def _answer(
    request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, feed: Feed
) -> None:
    route = (request.method, request.path)
    try:
        if route == ("GET", "/"):
            policy = {"Content-Security-Policy": _content_security_policy()}
            await _send(writer, HTTPStatus.OK, "text/html; charset=utf-8", _page(), policy)
        elif route == ("GET", "/events"):
            request.check_not_foreign()
            await _send_events(reader, writer, feed)
        elif route == ("POST", "/actions"):
            request.check_from_own_page()
            await _act(request, writer, feed)
        elif request.path in ("/", "/events", "/actions"):
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"not by {request.method}")
        else:
            raise RequestError(HTTPStatus.NOT_FOUND, f"there is no {request.path}")
    except RequestError as error:
        await _send_error(writer, error)


async def _act(request: HttpRequest, writer: asyncio.StreamWriter, feed: Feed) -> None:
    try:
        asked = json.loads(request.body)
        panel, action, arguments = asked["panel"], asked["action"], asked["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RequestError(
            HTTPStatus.BAD_REQUEST, f"not a valid action: {type(error).__name__}: {error}"
        ) from error
    try:
        result = await feed.act(panel, action, arguments)
        body = json.dumps({"result": result}, default=str).encode()
    except PurgatoryError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    except Exception as error:
        # A panel's own exception. The page shows it, and stays connected.
        _errors.log(error, "an action of the live page has failed")
        raise RequestError(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]
        ) from error
    await _send(writer, HTTPStatus.OK, "application/json", body)


async def _send_error(writer: asyncio.StreamWriter, error: RequestError) -> None:
    body = json.dumps({"error": str(error)}).encode()
    await _send(writer, error.status, "application/json", body)


async def _send(
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    content_type: str,
    body: bytes,
    headers: dict[str, str] | None = None,
) -> None:
    length = {"Content-Length": str(len(body))}
    writer.write(_head(status, content_type, length | (headers or {})) + body)
    async with asyncio.timeout(_TIMEOUT):
        writer.close()
        await writer.wait_closed()


def _head(status: HTTPStatus, content_type: str, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in (_EVERY_RESPONSE | headers).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _send_events(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, feed: Feed
) -> None:
    """Send readings as server-sent events until the client goes.

    A client that is slow misses readings of the present, but no sample.
    """
    if feed.pages >= MAX_PAGES:
        raise RequestError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_PAGES} pages are open, the most allowed"
        )
    feed.pages += 1
    # The client sends nothing more: its end is seen at once, not with the next reading.
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await feed.look()
        writer.write(_head(HTTPStatus.OK, "text/event-stream", {}))
        event, text, seen = "hello", feed.hello(), feed.history.taken
        while not gone.done():
            writer.write(f"event: {event}\ndata: {text}\n\n".encode())
            news = feed.news()
            async with asyncio.timeout(_TIMEOUT):
                await writer.drain()
            awaited: set[asyncio.Future[Any]] = {gone, news}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            event, text, seen = "reading", feed.reading(seen), feed.history.taken
    finally:
        feed.pages -= 1
        gone.cancel()


@functools.cache
def _page() -> bytes:
    return (files("request_purgatory.dashboard") / "page.html").read_bytes()


@functools.cache
def _content_security_policy() -> str:
    """Return the header by which the browser runs the page's own script, and no other.

    Texts on the page come from a program's keys and names. Even if one of them got into the page as
    HTML, its script would not run, and nothing could be loaded or sent elsewhere.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash('script')}'",
            f"style-src '{_hash('style')}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            # No other page may show this one in a frame, and so have its buttons pressed.
            "frame-ancestors 'none'",
        )
    )


def _hash(element: str) -> str:
    """Return the hash of the content of the page's only element of a kind."""
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>".encode(), _page(), re.DOTALL)
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
