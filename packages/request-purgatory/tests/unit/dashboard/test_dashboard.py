"""The server of the live page, and what a page is sent."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from request_purgatory import (
    InvalidArgumentError,
    ManualClock,
    PurgatoryError,
    SystemTimer,
    aio,
)
from request_purgatory.dashboard import Dashboard, Panel, feed, serve_dashboard
from request_purgatory.dashboard import dashboard as server
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.testing import ManualPurgatory
from tests.support.children import in_child
from tests.support.live_page import LivePage, port_of, press, refreshed, request

#: Readings are taken when a test asks for one, never by themselves.
NEVER = 3_600.0

Serve = Callable[..., Dashboard]


def never() -> bool:
    """Return False: a condition."""
    return False


@pytest.fixture
def serve(clock: ManualClock) -> Iterator[Serve]:
    """Serve dashboards on the test's clock until the test ends."""
    made: list[Dashboard] = []

    def make(*shown: Any, **options: Any) -> Dashboard:
        made.append(serve_dashboard(*shown, clock=clock, interval=NEVER, **options))
        return made[-1]

    yield make
    for dashboard in made:
        dashboard.close()


def test_page_shows_what_waits_and_what_ended(serve: Serve, clock: ManualClock) -> None:
    purgatory = ManualPurgatory("orders")
    purgatory.hold(["before"], until=lambda: True, timeout=1)
    dashboard = serve(purgatory, title="shop")
    assert dashboard.url == f"http://127.0.0.1:{port_of(dashboard.url)}/"
    with LivePage(port_of(dashboard.url)) as page:
        about = page.hello["about"]
        assert (about["title"], about["pid"], about["panels"]) == ("shop", os.getpid(), {})
        purgatory.hold(["orders-0"], until=never, timeout=30)
        purgatory.hold(["orders-0", "orders-1"], until=never, timeout=0.1)
        purgatory.advance(5)
        clock.advance(2_000)
        now = refreshed(dashboard, page)["now"]
        assert page.samples == [
            {
                "at_ms": 2_000,
                "span_ms": 2_000,
                "purgatories": {
                    "orders": {"pending": 1, "arrived": 2, "expired": 1, "waits": [[100, 1]]}
                },
            }
        ]
        assert now["longest"] == [
            {
                "purgatory": "orders",
                "name": "hold(never)",
                "key": "'orders-0'",
                "waited_ms": 5_000,
                "deadline_ms": 25_000,
                "tries": 1,
            }
        ]
        (total,) = now["purgatories"]
        assert (total["pending"], total["completed"], total["expired"]) == (1, 1, 1)
        (timer,) = now["timers"]
        assert (timer["name"], timer["pending"]) == ("orders", 1)
        fine, coarse = timer["wheels"]
        assert (fine["tick_ms"], fine["size"], fine["buckets"]) == (1, 256, [])
        assert (coarse["tick_ms"], coarse["position"]) == (256, 5_000 // 256)
        assert coarse["buckets"] == [[30_000 // 256, 1]]
        # A page that opens later gets the samples before it.
        with LivePage(port_of(dashboard.url)) as other:
            assert other.samples == page.samples


def test_all_of_the_process_is_shown_where_nothing_is_chosen(serve: Serve) -> None:
    dashboard = serve()
    purgatories = [ManualPurgatory("late"), LegacyPurgatory("old", reaper=False)]
    with SystemTimer("timer") as timer, LivePage(port_of(dashboard.url)) as page:
        timer.call_later_ms(3_600_000, never)
        for purgatory in purgatories:
            purgatory.hold(["k"], until=never, timeout=5)
        now = refreshed(dashboard, page)["now"]
        shown = {each["name"] for each in now["purgatories"]}
        assert shown >= {"late", "old"}
        assert {each["name"] for each in now["timers"] if each["pending"]} >= {"late", "timer"}
        for purgatory in purgatories:
            purgatory.close()
        now = refreshed(dashboard, page)["now"]
        assert not {each["name"] for each in now["purgatories"]} & {"late", "old"}


def test_purgatory_of_an_event_loop_is_shown(serve: Serve) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory("loop")
        assert purgatory.timer is None
        dashboard = serve(purgatory)
        page = LivePage(port_of(dashboard.url))
        assert page.hello["now"]["purgatories"] == []
        async with purgatory:
            future = purgatory.hold(["k"], until=never, timeout=60)
            now = (await asyncio.to_thread(refreshed, dashboard, page))["now"]
            assert [each["pending"] for each in now["purgatories"]] == [1]
            assert [each["pending"] for each in now["timers"]] == [1]
            future.cancel()
        page.close()

    asyncio.run(main())


def test_readings_come_by_themselves() -> None:
    purgatory = ManualPurgatory("own")
    with (
        serve_dashboard(purgatory, interval=0.001) as dashboard,
        LivePage(port_of(dashboard.url)) as page,
    ):
        while len(page.samples) < 3:
            page.next()
    assert [each["purgatories"] for each in page.samples[:3]] == [{"own": {}}] * 3


def test_page_keeps_nothing_alive(serve: Serve) -> None:
    purgatory = ManualPurgatory("dropped")
    purgatory.hold(["k"], until=never, timeout=5)
    dashboard = serve(purgatory)
    with LivePage(port_of(dashboard.url)) as page:
        assert len(refreshed(dashboard, page)["now"]["purgatories"]) == 1
        gone = weakref.ref(purgatory)
        del purgatory
        gc.collect()
        assert gone() is None
        assert refreshed(dashboard, page)["now"]["purgatories"] == []


def test_what_waits_is_read_for_open_pages_alone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    monkeypatch.setattr(feed, "present", lambda shown: looked.append(shown) or {})
    dashboard = serve(ManualPurgatory())
    dashboard.refresh()
    assert not looked
    with LivePage(port_of(dashboard.url)):
        assert len(looked) == 1


def test_reading_that_fails_is_reported_and_the_next_one_works(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(ManualPurgatory):
        is_odd = True

        def snapshot(self, top: int = 10) -> Any:
            if self.is_odd:
                raise ValueError("odd")
            return super().snapshot(top)

        def metrics(self) -> Any:
            if self.is_odd is None:
                raise ValueError("no metrics")
            return super().metrics()

    purgatory = Odd()
    dashboard = serve(purgatory)
    with LivePage(port_of(dashboard.url)) as page:
        assert page.hello["now"]["error"] == "the reading has failed: odd"
        purgatory.is_odd = None  # type: ignore[assignment]
        refreshed(dashboard, page)
        purgatory.is_odd = False
        assert "error" not in refreshed(dashboard, page)["now"]
        assert len(page.samples) == 1
    assert "a reading for the dashboard has failed" in caplog.text
    assert "a sample for the dashboard has failed" in caplog.text


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exit_in_the_users_code_does_not_end_the_server(
    serve: Serve, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    class Exits(ManualPurgatory):
        exits = True

        def snapshot(self, top: int = 10) -> Any:
            if self.exits:
                raise kind
            return super().snapshot(top)

    purgatory = Exits()
    dashboard = serve(purgatory)
    with LivePage(port_of(dashboard.url)) as page:
        assert page.hello["now"]["error"] == f"the reading has failed: {kind.__name__}"
        purgatory.exits = False
        assert "error" not in refreshed(dashboard, page)["now"]
    assert "a reading for the dashboard has failed" in caplog.text


# -- panels and actions


class Lamp:
    """A panel with a button."""

    def __init__(self) -> None:
        self.is_on = False

    def panel(self) -> Panel:
        """Return the panel."""
        return Panel("lamp", self._read, self._act, {"colour": "red"})

    async def _read(self) -> dict[str, object]:
        if not isinstance(self.is_on, bool):
            raise PurgatoryError("the lamp is broken")
        return {"is_on": self.is_on}

    async def _act(self, action: str, arguments: dict[str, Any]) -> object:
        if action != "switch":
            raise InvalidArgumentError("action", "switch", action)
        self.is_on = arguments["on"]
        return 7


def test_action_of_a_panel_is_done_and_shown_at_once(serve: Serve) -> None:
    dashboard = serve(ManualPurgatory(), panels=[Lamp().panel()])
    with LivePage(port_of(dashboard.url)) as page:
        assert page.hello["about"]["panels"] == {"lamp": {"colour": "red"}}
        assert page.hello["now"]["panels"] == {"lamp": {"is_on": False}}
        assert press(port_of(dashboard.url), "lamp", "switch", {"on": True}) == (200, {"result": 7})
        assert page.next()["now"]["panels"] == {"lamp": {"is_on": True}}
        press(port_of(dashboard.url), "lamp", "switch", {"on": None})
        assert page.next()["now"]["panels"] == {"lamp": {"error": "the lamp is broken"}}
        assert page.samples == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("lamp", "burn", {}), "action must be switch, got 'burn'"),
        (("lamp", 1, {}), "action must be a name, got 1"),
        (("lamp", "switch", []), "arguments must be an object"),
        (("other", "switch", {}), r"panel must be one of ['lamp'], got 'other'"),
        (("dark", "switch", {}), r"panel must be one of ['lamp'], got 'dark'"),
        ((["lamp"], "switch", {}), r"panel must be one of ['lamp']"),
    ],
)
def test_unknown_action_is_refused(serve: Serve, asked: tuple[Any, Any, Any], message: str) -> None:
    lamp = Lamp()
    dashboard = serve(panels=[lamp.panel(), Panel("dark", lamp._read)])
    status, answer = press(port_of(dashboard.url), *asked)
    assert status == 400
    assert message in answer["error"]


def test_failure_of_an_action_is_shown_and_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """The page would say otherwise that the connection is lost."""

    async def read() -> dict[str, object]:
        return {}

    async def act(_action: str, arguments: dict[str, Any]) -> object:
        raise OSError("the port is taken" + "!" * arguments["more"])

    port = port_of(serve(panels=[Panel("lamp", read, act)]).url)
    assert press(port, "lamp", "switch", {}) == (500, {"error": "KeyError: 'more'"})
    assert "an action of the live page has failed" in caplog.text
    status, answer = press(port, "lamp", "switch", {"more": 0})
    assert (status, answer["error"]) == (500, "OSError: the port is taken")
    _, answer = press(port, "lamp", "switch", {"more": 10_000})
    assert len(answer["error"]) == 500


def test_panel_whose_state_is_no_json_is_reported(serve: Serve) -> None:
    async def read() -> dict[Any, Any]:
        return {("a", "tuple"): 1}

    purgatory = ManualPurgatory("orders")
    dashboard = serve(purgatory, panels=[Panel("odd", read), Lamp().panel()])
    with LivePage(port_of(dashboard.url)) as page:
        now = refreshed(dashboard, page)["now"]
        assert "keys must be str" in now["panels"]["odd"]["error"]
        assert now["panels"]["lamp"] == {"is_on": False}
        assert [each["name"] for each in now["purgatories"]] == ["orders"]


def test_panel_that_does_not_answer_is_reported(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_PANEL_TIMEOUT", 0.001)
    monkeypatch.setattr(feed, "_ACTION_TIMEOUT", 0.001)

    async def hang(*_: object) -> Any:
        await asyncio.Event().wait()

    dashboard = serve(panels=[Panel("stuck", hang, hang)])
    with LivePage(port_of(dashboard.url)) as page:
        assert page.hello["now"]["panels"]["stuck"]["error"].startswith(
            "the stuck has not answered"
        )
        status, answer = press(port_of(dashboard.url), "stuck", "go", {})
        assert (status, answer) == (400, {"error": "go: no answer for 0 s"})


# -- who may ask


def test_page_may_load_its_own_script_and_nothing_else(serve: Serve) -> None:
    dashboard = serve()
    response, body = request(port_of(dashboard.url), "GET", "/?query=ignored")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert body.startswith(b"<!doctype html>")
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    # Nothing is loaded from elsewhere; the one address is a name space.
    assert body.replace(b"http://www.w3.org/2000/svg", b"").count(b"http") == 0


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil", "[", ""])
def test_other_names_for_this_machine_are_refused(serve: Serve, host: str) -> None:
    dashboard = serve()
    for path in ("/", "/events"):
        response, body = request(port_of(dashboard.url), "GET", path, {"Host": host})
        assert (response.status, b"addressed as localhost" in body) == (403, True)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:80", "[::1]:80"])
def test_own_names_are_accepted_with_any_port(serve: Serve, host: str) -> None:
    response, _ = request(port_of(serve().url), "GET", "/", {"Host": host})
    assert response.status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
    ],
)
def test_page_of_another_site_can_press_no_button(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    lamp = Lamp()
    dashboard = serve(panels=[lamp.panel()])
    assert press(port_of(dashboard.url), "lamp", "switch", {"on": True}, **headers)[0] == status
    assert lamp.is_on is False


def test_request_without_an_origin_can_press_no_button(serve: Serve) -> None:
    json_type = {"Content-Type": "application/json"}
    response, _ = request(port_of(serve().url), "POST", "/actions", json_type, "{}")
    assert response.status == 403


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_page_of_another_site_gets_no_events(serve: Serve, headers: dict[str, str]) -> None:
    response, _ = request(port_of(serve().url), "GET", "/events", headers)
    assert response.status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/favicon.ico", 404),
        ("POST", "/", 405),
        ("GET", "/actions", 405),
        ("PUT", "/x", 404),
    ],
)
def test_other_requests_are_refused(serve: Serve, method: str, path: str, status: int) -> None:
    response, body = request(port_of(serve().url), method, path)
    assert (response.status, body[:10]) == (status, b'{"error": ')


def own_origin(port: int) -> dict[str, str]:
    """Return the headers of the page's own requests."""
    return {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}


def test_malformed_requests_are_refused(serve: Serve) -> None:
    port = port_of(serve().url)
    assert request(port, "GET", "/", {"X": "x" * 20_000})[0].status == 431
    assert request(port, "GET", "/", {"Content-Length": "-1"})[0].status == 413
    assert request(port, "GET", "/", {"Content-Length": "many"})[0].status == 400
    assert request(port, "POST", "/actions", {"Content-Length": "1000000"})[0].status == 413
    for body in (b"", b"[]", b"1", b"\xff", b"[" * 5_000, b'{"panel": "lamp"}'):
        assert request(port, "POST", "/actions", own_origin(port), body)[0].status == 400
    with server.socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"HELO\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    with server.socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"GET / HT")  # It leaves in the middle of a word.
    assert request(port, "GET", "/")[0].status == 200


def test_silent_client_is_let_go(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("request_purgatory.dashboard.connection._TIMEOUT", 0.001)
    with server.socket.create_connection(("127.0.0.1", port_of(serve().url)), 10) as connection:
        assert connection.recv(100) == b""


# -- limits, and the end


def test_pages_and_connections_are_limited(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("request_purgatory.dashboard.connection.MAX_PAGES", 2)
    dashboard = serve()
    pages = [LivePage(port_of(dashboard.url)) for _ in range(2)]
    response, body = request(port_of(dashboard.url), "GET", "/events")
    assert (response.status, b"2 pages are open" in body) == (503, True)
    pages.pop().close()
    for _ in range(1_000):  # The server sees the end when its loop comes round.
        dashboard.refresh()
        if dashboard._feed.pages == 1:
            break
    pages.append(LivePage(port_of(dashboard.url)))
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with pytest.raises(ConnectionError):
        request(port_of(dashboard.url), "GET", "/")
    for page in pages:
        page.close()


def test_close_ends_the_thread_and_open_pages() -> None:
    dashboard = serve_dashboard(interval=NEVER)
    page = LivePage(port_of(dashboard.url))
    dashboard.close()
    assert page.ends()
    page.close()
    assert not dashboard._thread.is_alive()
    dashboard.close()
    dashboard.refresh()
    assert repr(dashboard) == f"<Dashboard {dashboard.url} closed>"
    with serve_dashboard(port=port_of(dashboard.url)) as other:
        assert other.url == dashboard.url
        assert repr(other) == f"<Dashboard {other.url}>"


def test_page_may_close_its_own_dashboard(serve: Serve) -> None:
    closed: Future[Dashboard] = Future()

    async def read() -> dict[str, object]:
        return {}

    async def act(action: str, arguments: dict[str, Any]) -> object:
        dashboard.close()
        closed.set_result(dashboard)
        return None

    dashboard = serve(panels=[Panel("end", read, act)])
    with suppress(ConnectionError):  # The answer may be sent before the end.
        press(port_of(dashboard.url), "end", "close", {})
    dashboard._thread.join(20)
    assert closed.done()
    assert not dashboard._thread.is_alive()


def test_taken_port_is_refused(serve: Serve) -> None:
    port = port_of(serve().url)
    taken = re.escape(f"port must be free on 127.0.0.1 (Address already in use), got {port}")
    with pytest.raises(InvalidArgumentError, match=taken):
        serve(port=port)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"port": 65_536}, "port must be between 0 and 65535, got 65536"),
        ({"port": 1.5}, r"port must be a whole number"),
        ({"interval": 0}, "interval must be a positive number of seconds, got 0"),
        ({"interval": float("nan")}, "interval must be a positive number"),
        ({"interval": "x"}, "interval must be a positive number"),
        ({"interval": None}, "interval must be a positive number"),
        ({"interval": True}, "interval must be a positive number"),
        ({"interval": 10**400}, "interval must be a positive number"),
        ({"panels": 5}, "panels must be a sequence of Panel, got 5"),
        ({"panels": [1]}, r"panels must be a sequence of Panel, got \[1\]"),
        ({"clock": 5}, "clock must be a Clock or None, got 5"),
        ({"title": 5}, "title must be a str, got 5"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        serve_dashboard(**arguments)
    with pytest.raises(InvalidArgumentError, match="shown must be purgatories and timers"):
        serve_dashboard("orders")  # type: ignore[arg-type]


def test_thread_that_does_not_start_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []
    listen = server._listen

    def noting(port: int) -> Any:
        listening = listen(port)
        ports.append(listening.getsockname()[1])
        return listening

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(server, "_listen", noting)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            serve_dashboard()
    with serve_dashboard(port=ports[0]):
        pass


def test_server_that_does_not_start_reports_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError("no more files")

    with monkeypatch.context() as patched:
        patched.setattr(server.asyncio, "start_server", refuse)
        with pytest.raises(OSError, match="no more files"):
            serve_dashboard()


def test_connection_that_fails_is_logged(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("unforeseen")

    dashboard = serve()
    with monkeypatch.context() as patched:
        patched.setattr(server, "serve_connection", fail)
        with pytest.raises(ConnectionError):
            request(port_of(dashboard.url), "GET", "/")
    assert request(port_of(dashboard.url), "GET", "/")[0].status == 200
    assert f"a connection to <Dashboard {dashboard.url}> has failed" in caplog.text


def test_thread_that_fails_later_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)

    async def fail(*_: object, **__: object) -> None:
        raise ValueError("unforeseen")

    dashboard = serve_dashboard(interval=NEVER)
    with monkeypatch.context() as patched:
        patched.setattr(server.asyncio, "gather", fail)
        dashboard._loop.call_soon_threadsafe(dashboard._stopping.set)
        dashboard._thread.join(20)
    assert [str(each.exc_value) for each in reported] == ["unforeseen"]
    dashboard.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_does_not_serve(serve: Serve) -> None:
    purgatory = ManualPurgatory("parent")
    dashboard = serve(purgatory)

    def child() -> None:
        assert threading.active_count() == 1
        assert dashboard._socket.fileno() == -1
        dashboard.refresh()
        dashboard.close()
        with serve_dashboard(purgatory, interval=NEVER) as own, LivePage(port_of(own.url)) as page:
            assert page.hello["about"]["pid"] == os.getpid()

    with LivePage(port_of(dashboard.url)) as page:
        in_child(child)
        assert refreshed(dashboard, page)["now"]["purgatories"][0]["name"] == "parent"
        dashboard.close()
        assert page.ends()
