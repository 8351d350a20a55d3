"""The plugin that finds leftovers of tests, run in a separate pytest and on two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import leftovers

pytestmark = pytest.mark.skipif(not leftovers.HAS_PROC, reason="there is no /proc/self/fd here")

_CONFTEST = """
    from tests.support import leftovers

    leftovers.PAUSES = leftovers.PAUSES[:6]  # 63 ms in all

    def pytest_configure(config):
        config.pluginmanager.register(leftovers.Leftovers(), leftovers.NAME)
"""

_TESTS = """
    import asyncio, atexit, os, socket, subprocess, sys, threading
    import pytest

    KEPT = []

    def run(*command):
        child = subprocess.Popen(command)
        atexit.register(child.kill)
        KEPT.append(child)
        return child

    def wait():
        threading.Event().wait()

    def test_thread():
        threading.Thread(target=wait, name="left", daemon=True).start()

    def test_process():
        run("sleep", "600")

    def test_ended_process():
        child = run("true")
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    def test_socket():
        KEPT.append(socket.create_server(("127.0.0.1", 0)))

    def test_file(tmp_path):
        KEPT.append(open(tmp_path / "left.txt", "w"))

    def test_pipe():
        KEPT.append(os.pipe())

    def test_event_loop():
        KEPT.append(asyncio.new_event_loop())

    @pytest.fixture
    def unclosed(tmp_path):
        yield
        KEPT.append(open(tmp_path / "fixture.txt", "w"))

    def test_fixture(unclosed):
        pass

    @pytest.mark.jvm
    def test_slower_tier():
        KEPT.append(os.pipe())

    def test_failure():
        KEPT.append(os.pipe())
        assert False

    def test_clean(tmp_path):
        thread = threading.Thread(target=str)
        thread.start()
        thread.join()
        subprocess.run(["true"])
        with open(tmp_path / "closed.txt", "w"), socket.create_server(("127.0.0.1", 0)):
            pass
        for end in os.pipe():
            os.close(end)
        asyncio.run(asyncio.sleep(0))

    def test_thread_on_its_way_out():
        threading.Timer(0.01, str).start()

    class Closing:
        def __init__(self, path):
            self.itself = self
            self.folder = os.open(path, os.O_RDONLY)

        def __del__(self):
            os.close(self.folder)

    def test_garbage(tmp_path):
        Closing(tmp_path)

    def open_all(tmp_path_factory):
        path = tmp_path_factory.mktemp("wide") / "wide.txt"
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        with open(path, "w") as file, socket.create_server(("127.0.0.1", 0)) as server:
            child = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
            yield file
            child.kill()
            child.communicate()
        stop.set()
        thread.join()

    @pytest.fixture(scope="module")
    def loop():
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        yield loop
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    @pytest.fixture(scope="module")
    def servers(loop):
        servers = []
        yield servers
        for server in servers:
            loop.call_soon_threadsafe(server.close)

    def test_socket_of_a_wider_loop(loop, servers):
        serving = asyncio.start_server(print, "127.0.0.1", 0)
        servers.append(asyncio.run_coroutine_threadsafe(serving, loop).result(30))

    module = pytest.fixture(scope="module")(open_all)
    session = pytest.fixture(scope="session")(open_all)

    @pytest.mark.parametrize("scope", ["module", "session"])
    def test_wider_scope(scope, request):
        path = request.getfixturevalue(scope).name
        os.rename(path, path + ".renamed")
"""

_UNCLOSED_FIXTURE = """
    import os
    import pytest

    @pytest.fixture(scope="module")
    def never_closed():
        return os.pipe()

    def test_wider_scope_unclosed(never_closed):
        pass
"""

_FILES = {"conftest": _CONFTEST, "test_all": _TESTS, "test_unclosed": _UNCLOSED_FIXTURE}

# A pattern of the message for each test that has a leftover.
_MESSAGES = {
    "test_thread": r"thread 'left' of test_all\.wait, now at .*test_all.py:\d+; left by this",
    "test_process": r"process \d+: sleep 600; left by this test",
    "test_ended_process": r"process \d+: ended, but not waited for",
    "test_socket": r"socket:\[\d+\] from \('127\.0\.0\.1', \d+\) to None, held by <socket",
    "test_file": r"fd \d+: .*/left\.txt, held by <_io\.FileIO name='.*/left\.txt'",
    "test_pipe": r"(?s)pipe:\[\d+\] for reading;.*pipe:\[\d+\] for writing;",
    "test_event_loop": r"fd \d+: anon_inode:\[eventpoll\]",
    "test_fixture": r"fd \d+: .*/fixture\.txt, .*; left by this test",
    "test_wider_scope_unclosed": r"left by the fixture never_closed of scope module",
}

# Test cases by name; their children are failures and errors.
Results = dict[str, ElementTree.Element]


@pytest.fixture(scope="module", params=["0", "2"], ids=["one process", "two workers"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Run the tests above once for each number of workers, and return their results by name."""
    folder = tmp_path_factory.mktemp("suite")
    for name, text in _FILES.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    plugins = ["-p", "xdist.plugin", "-p", "no:cacheprovider"]
    options = ["--rootdir", ".", "-n", request.param, "--junit-xml", "results.xml"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=120,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    cases = ElementTree.parse(folder / "results.xml").iter("testcase")
    return {case.attrib["name"]: case for case in cases}


@pytest.mark.parametrize("name", _MESSAGES)
def test_leftover_is_an_error_at_teardown(results: Results, name: str) -> None:
    (error,) = results[name]
    assert error.tag == "error"
    assert "failed on teardown" in error.attrib["message"]
    assert re.search(_MESSAGES[name], error.text or "")


@pytest.mark.parametrize(
    "name",
    [
        "test_clean",
        "test_thread_on_its_way_out",
        "test_garbage",
        "test_slower_tier",
        "test_wider_scope[module]",
        "test_wider_scope[session]",
        "test_socket_of_a_wider_loop",
    ],
)
def test_without_leftovers_the_test_passes(results: Results, name: str) -> None:
    assert list(results[name]) == []


def test_failed_test_is_not_reported_twice(results: Results) -> None:
    assert [outcome.tag for outcome in results["test_failure"]] == ["failure"]
