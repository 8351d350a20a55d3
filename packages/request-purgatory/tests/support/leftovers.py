"""A pytest plugin that fails a test which leaves a thread, process, socket or file open.

After the teardown of each test of the fast tier, the plugin compares the open resources with those
before the set-up: Python's threads, child processes and file descriptors. Resources that a fixture
of a wider scope opened belong to that fixture, and must be closed when the fixture ends.

`-p no:leftovers` turns the plugin off. With PYTHONTRACEMALLOC=10 in the environment, the message
says where each resource was created. The plugin does not see threads of C libraries that never call
Python, and processes whose parent has ended.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import socket
import stat
import sys
import threading
import time
import tracemalloc
from collections.abc import Generator, Iterator, Set
from pathlib import Path
from typing import Any

import pytest

NAME = "leftovers"

# Whether descriptors and child processes can be listed.
HAS_PROC = Path("/proc/self/fd").is_dir()

# Seconds between two looks at leftovers, about 4 in all, as threads and connections take time to
# end. A garbage collection, which takes longer than the first pauses, precedes some looks.
PAUSES = tuple(0.001 * 2**exponent for exponent in range(12))
COLLECTS = PAUSES[3::4]


# The process id of a child.
Process = int
# A file descriptor, and the device and inode of its file, which renaming does not change.
Handle = tuple[int, int, int]
Resource = threading.Thread | Process | Handle
Steps = Generator[None, object, object]


def open_resources() -> set[Resource]:
    """Return the resources that are open in this process."""
    found: set[Resource] = set(threading.enumerate())
    if HAS_PROC:
        found.update(_children())
        # Plain tuples in a plain loop: every test pays for this twice.
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            try:
                status = os.fstat(fd)
            except OSError:  # The descriptor of the listing itself, or one that was just closed.
                continue
            found.add((fd, status.st_dev, status.st_ino))
    return found


def _children() -> list[Process]:
    try:
        # Usually there are none, which one system call tells.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    found: list[Process] = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
        except OSError:  # The thread has ended.
            continue
    return found


class Leftovers:
    """The plugin: keeps the resources that were open before, and those that belong to fixtures."""

    def __init__(self) -> None:
        """Create the plugin without known resources."""
        self._before: set[Resource] | None = None
        self._failed = False
        self._owned: dict[pytest.FixtureDef[Any], set[Resource]] = {}
        self._disowned: dict[Resource, str] = {}

    def pytest_report_header(self) -> str | None:
        """Report which resources can't be checked on this system."""
        return None if HAS_PROC else f"{NAME}: threads only, as there is no /proc/self/fd"

    def pytest_sessionstart(self) -> None:
        """Open a pipe that uvloop's libuv keeps open from the first use on."""
        if importlib.util.find_spec("uvloop") is not None:
            importlib.import_module("uvloop").new_event_loop().close()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Steps:
        """Record the resources that are open before the set-up."""
        self._failed = False
        self._before = open_resources() if _is_checked(item) else None
        return (yield from self._note_failure())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Steps:
        """Record whether the test fails."""
        return (yield from self._note_failure())

    def _note_failure(self) -> Steps:
        try:
            return (yield)
        except pytest.skip.Exception:
            raise
        except BaseException:
            # The traceback keeps the test's variables alive, and with them their resources.
            self._failed = True
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Steps:
        """Record the resources that a fixture of a wider scope opens."""
        if fixturedef.scope == "function":
            return (yield)
        before = open_resources()
        try:
            return (yield)
        finally:
            opened = open_resources() - before
            # What serves the whole process is known now; a connection of Spark's gateway that has
            # broken by the fixture's end would not tell whose it was.
            self._owned[fixturedef] = opened.difference(_shared(opened))

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Record the resources of a fixture that has ended, except those of other fixtures."""
        left = self._owned.pop(fixturedef, set()).difference(*self._owned.values())
        owner = f"left by the fixture {fixturedef.argname} of scope {fixturedef.scope}"
        self._disowned.update(dict.fromkeys(left, owner))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Steps:
        """Fail the test if it, or a fixture that ended with it, left a resource open."""
        try:
            result = yield
            if self._before is not None and not self._failed and self._find():
                left = self._find_after_waiting(item)
                if left:
                    pytest.fail(_message(left), pytrace=False)
            return result
        finally:
            self._before = None
            self._disowned.clear()

    def _find(self) -> dict[Resource, str]:
        """Return the open resources without an owner, each with a phrase about its origin."""
        now = open_resources()
        new = now.difference(self._before or (), *self._owned.values())
        if new:
            new -= _served(new, set().union(*self._owned.values()))
        left = dict.fromkeys(new, "left by this test")
        left.update((it, owner) for it, owner in self._disowned.items() if it in now)
        for it in _shared(left.keys()) if left else ():
            del left[it]
        return left

    def _find_after_waiting(self, item: pytest.Item) -> dict[Resource, str]:
        """Return the resources that are still open after some time and a garbage collection."""
        left: dict[Resource, str] = {}
        if isinstance(item, pytest.Function):
            # pytest drops them next; until then they keep objects alive that a finalizer closes.
            item.funcargs.clear()
        for pause in PAUSES:
            if pause in COLLECTS:
                gc.collect()
                _raise_unraisable(item)
            time.sleep(pause)
            left = self._find()
            if not left:
                break
        return left


def _is_checked(item: pytest.Item) -> bool:
    """Return whether the fast tier runs this test."""
    return not (item.get_closest_marker("jvm") or item.get_closest_marker("slow"))


def _raise_unraisable(item: pytest.Item) -> None:
    """Raise errors of finalizers in the test that they belong to."""
    plugin = item.config.pluginmanager.get_plugin("unraisableexception")
    if plugin is not None:
        plugin.pytest_runtest_teardown(item)


def _served(found: Set[Resource], owned: Set[Resource]) -> set[Resource]:
    """Return the descriptors that an event loop among `owned` waits for, and so owns.

    For example, a cluster that the tests of a module share opens sockets when a node restarts.
    """
    waiting: set[int] = set()
    for it in owned:
        if isinstance(it, tuple):
            try:
                lines = Path(f"/proc/self/fdinfo/{it[0]}").read_text().splitlines()
            except OSError:  # It was closed.
                continue
            # Only Linux's epoll has such lines.
            waiting.update(int(line.split()[1]) for line in lines if line.startswith("tfd:"))
    return {it for it in found if isinstance(it, tuple) and it[0] in waiting}


def _shared(found: Set[Resource]) -> list[Resource]:
    """Return the resources that serve the whole process, as they belong to no test."""
    frames = sys._current_frames()
    # Before Python 3.13 the object of a foreign thread outlives the thread.
    foreign = [it for it in found if isinstance(it, threading._DummyThread)]
    ended = [it for it in foreign if it.ident not in frames]
    return [*ended, *_of_gateway(found), *_of_matplotlib(found)]


def _of_matplotlib(found: Set[Resource]) -> Iterator[Resource]:
    """Yield the font files that matplotlib keeps open."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None:
        return
    data = f"{matplotlib.get_data_path()}{os.sep}"
    for it in found:
        if isinstance(it, tuple):
            try:
                file = os.readlink(f"/proc/self/fd/{it[0]}")
            except OSError:  # it was closed
                continue
            if file.startswith(data):
                yield it


def _of_gateway(found: Set[Resource]) -> Iterator[Resource]:
    """Yield the resources of Spark's gateway: its JVM, connections to it, and Py4J's threads.

    PySpark keeps one gateway until the process ends. Each thread that uses Spark connects to the
    gateway's port. The JVM connects to two ports of this process, for callbacks and accumulators.
    """
    pyspark = sys.modules.get("pyspark.core.context")
    if pyspark is None or pyspark.SparkContext._gateway is None:
        return
    gateway = pyspark.SparkContext._gateway
    server = gateway.__dict__.get("_callback_server")
    ports = set() if server is None else {server.port}
    accumulators = getattr(pyspark.SparkContext._active_spark_context, "_accumulatorServer", None)
    if accumulators is not None and isinstance(accumulators.server_address, tuple):
        ports.add(accumulators.server_address[1])
    process = gateway.proc
    for it in found:
        if isinstance(it, threading.Thread):
            target = getattr(it, "_target", None)
            own = type(getattr(target, "__self__", it)).__module__.startswith("py4j.")
        elif isinstance(it, int):
            own = process is not None and it == process.pid
        elif process is not None and it[0] == process.stdin.fileno():
            own = True
        else:
            local, remote = (_port(address) for address in _addresses(it[0]))
            own = local in ports or remote == gateway.gateway_parameters.port
        if own:
            yield it


def _addresses(fd: int) -> tuple[object, object]:
    """Return the local and the remote address of a socket, each None if there is none."""
    try:
        duplicate = os.dup(fd)
    except OSError:  # it was closed
        return None, None
    try:
        copy = socket.socket(fileno=duplicate)
    except OSError:  # It is not a socket.
        os.close(duplicate)
        return None, None
    with copy:
        addresses: list[object] = []
        for ask in (copy.getsockname, copy.getpeername):
            try:
                addresses.append(ask())
            except OSError:
                addresses.append(None)
    return addresses[0], addresses[1]


def _port(address: object) -> int | None:
    return address[1] if isinstance(address, tuple) else None


def _message(left: dict[Resource, str]) -> str:
    lines = [f"{len(left)} left over:"]
    lines += sorted(f"  {describe(it)}; {owner}" for it, owner in left.items())
    if not tracemalloc.is_tracing():
        lines.append("PYTHONTRACEMALLOC=10 shows where each was created.")
    return "\n".join(lines)


def describe(resource: Resource) -> str:
    """Return a description of a resource, with the place of its creation if it is known."""
    if isinstance(resource, threading.Thread):
        return _describe_thread(resource)
    if isinstance(resource, int):
        return _describe_process(resource)
    return _describe_handle(resource[0])


def _describe_thread(thread: threading.Thread) -> str:
    work = getattr(thread, "_target", None) or type(thread)
    name = getattr(work, "__qualname__", repr(work))
    text = f"thread {thread.name!r} of {getattr(work, '__module__', '?')}.{name}"
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    if frame is not None:
        text += f", now at {frame.f_code.co_filename}:{frame.f_lineno}"
    return text + _created(thread)


def _describe_process(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = b" ".join(words).decode(errors="replace").strip()
    return f"process {pid}: {command or 'ended, but not waited for'}"


def _describe_handle(fd: int) -> str:
    try:
        mode = os.fstat(fd).st_mode
        file = os.readlink(f"/proc/self/fd/{fd}")
        flags = int(Path(f"/proc/self/fdinfo/{fd}").read_text().split("flags:")[1].split()[0], 8)
    except OSError:
        return f"fd {fd}: closed meanwhile"
    if stat.S_ISSOCK(mode):
        local, remote = _addresses(fd)
        file += f" from {local!r} to {remote!r}"
    elif stat.S_ISFIFO(mode):
        file += " for reading" if flags & os.O_ACCMODE == os.O_RDONLY else " for writing"
    return f"fd {fd}: {file}{_holder(fd)}"


def _holder(fd: int) -> str:
    """Return a phrase that names the Python object of a descriptor, or an empty string."""
    for it in gc.get_objects():
        # Not isinstance, as a proxy's `__class__` may run code.
        if issubclass(type(it), socket.socket | io.FileIO):
            try:
                found = it.fileno() == fd
            except (OSError, ValueError):  # It is closed.
                continue
            if found:
                return f", held by {it!r}{_created(it)}"
    return ""


def _created(made: object) -> str:
    trace = tracemalloc.get_object_traceback(made)
    return "" if trace is None else "\n    created at\n    " + "\n    ".join(trace.format())
