"""The applications of the guides on servers answer, wait, and end what waits when they are stopped.

Without servers: the tests call the applications and hooks as these do.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from request_purgatory.aio import Purgatory
from tests.docs import snippets

SERVERS = "docs/how_to/fork_servers.md"
SHUTDOWN = "docs/how_to/clean_shutdown.md"
FRAMEWORKS = "docs/how_to/fastapi_flask.md"
GUNICORN = "# gunicorn.conf.py"


def module_of(page: str, mark: str, **names: object) -> ModuleType:
    """Return the block of a page that contains `mark`, as a module that has `names`, too."""
    (code,) = [block.code for block in snippets.blocks(page) if mark in block.code]
    module = ModuleType("example")
    vars(module).update(names)
    exec(compile(code, f"{page}: {mark}", "exec"), vars(module))
    return module


@pytest.fixture
def wsgi() -> Iterator[ModuleType]:
    """Return the WSGI application's module."""
    module = module_of(SERVERS, "# app.py")
    yield module
    module.purgatory.close()


@pytest.fixture
def sigterm() -> Iterator[list[int]]:
    """Return the signals that the server's own handler was called with."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda signum, _frame: received.append(signum))
    yield received
    signal.signal(signal.SIGTERM, before)


def ask(app: Any, method: str, path: str) -> tuple[str, bytes]:
    """Return the status and the body of a WSGI application's response."""
    statuses: list[str] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    body = b"".join(app(environ, lambda status, _headers: statuses.append(status)))
    return statuses[0], body


def wait_until_pending(purgatory: Any) -> None:
    """Return when a request waits: its thread enters the purgatory before it blocks."""
    while purgatory.num_delayed == 0:
        pass


def test_wsgi_application_waits_for_its_event(wsgi: ModuleType) -> None:
    """The POST of one thread answers the GET of another."""
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(ask, wsgi.app, "GET", "/7")
        wait_until_pending(wsgi.purgatory)
        assert ask(wsgi.app, "POST", "/7") == ("204 No Content", b"")
        assert held.result(timeout=60) == ("200 OK", b"paid")


def test_hook_for_gunicorn_ends_what_waits(
    wsgi: ModuleType, sigterm: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And calls gunicorn's own handler."""
    monkeypatch.setitem(sys.modules, "app", wsgi)
    module_of(SHUTDOWN, GUNICORN).post_worker_init(None)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(ask, wsgi.app, "GET", "/7")
        wait_until_pending(wsgi.purgatory)
        signal.raise_signal(signal.SIGTERM)
        assert held.result(timeout=60)[0] == "503 Service Unavailable"
    assert sigterm == [signal.SIGTERM]


def test_asgi_application_waits_and_ends_what_waits(sigterm: list[int]) -> None:
    """In uvicorn's order: the handler of SIGTERM, running requests, the lifespan's end."""
    module = module_of(SERVERS, "# asgi.py")
    app = module.app
    vars(module).update(
        lifespan=module_of(SHUTDOWN, "async def lifespan", Purgatory=Purgatory).lifespan
    )

    async def get(state: dict[str, Any], method: str, path: str) -> int:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "state": state}
        await app(scope, None, send)
        status: int = sent[0]["status"]
        return status

    async def serve() -> list[int]:
        state: dict[str, Any] = {}
        received: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        sent: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        life = asyncio.create_task(
            app({"type": "lifespan", "state": state}, received.get, sent.put)
        )
        await received.put({"type": "lifespan.startup"})
        assert (await sent.get())["type"] == "lifespan.startup.complete"
        first = asyncio.create_task(get(state, "GET", "/7"))
        await asyncio.sleep(0)
        statuses = [await get(state, "POST", "/7"), await first]
        second = asyncio.create_task(get(state, "GET", "/8"))
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGTERM)
        statuses.append(await second)
        await received.put({"type": "lifespan.shutdown"})
        assert (await sent.get())["type"] == "lifespan.shutdown.complete"
        await life
        return statuses

    assert asyncio.run(asyncio.wait_for(serve(), 60)) == [200, 200, 503]
    assert sigterm == [signal.SIGTERM]


def test_application_of_fastapi_waits_and_ends_what_waits(sigterm: list[int]) -> None:
    module = module_of(FRAMEWORKS, "# fast.py")

    async def ask_for(method: str, path: str) -> int:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": method, "path": path, "headers": []}
        scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http"}
        await module.app(scope, receive, send)
        status: int = sent[0]["status"]
        return status

    async def serve() -> list[int]:
        async with module.app.router.lifespan_context(module.app):
            first = asyncio.create_task(ask_for("GET", "/orders/7"))
            second = asyncio.create_task(ask_for("GET", "/orders/8"))
            while module.purgatory.num_delayed < 2:
                await asyncio.sleep(0)
            statuses = [await ask_for("POST", "/orders/7"), await first]
            signal.raise_signal(signal.SIGTERM)
            return [*statuses, await second]

    assert asyncio.run(asyncio.wait_for(serve(), 60)) == [204, 200, 503]
    assert sigterm == [signal.SIGTERM]


def test_application_of_flask_waits_and_ends_what_waits(sigterm: list[int]) -> None:
    module = module_of(FRAMEWORKS, "# flasks.py")
    client = module.app.test_client
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(client().get, "/orders/7")
        wait_until_pending(module.purgatory)
        assert client().post("/orders/7").status_code == 204
        assert held.result(timeout=60).json == {"state": "paid"}
        held = threads.submit(client().get, "/orders/8")
        wait_until_pending(module.purgatory)
        signal.raise_signal(signal.SIGTERM)
        assert held.result(timeout=60).status_code == 503
    assert sigterm == [signal.SIGTERM]
