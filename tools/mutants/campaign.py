"""A pytest plugin that runs the collected tests on mutants, each in a process forked for it."""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import coverage
import pytest

from tools.mutants.line_tests import LineTests, TestRecord
from tools.mutants.live_functions import LiveFunctions
from tools.mutants.mutations import Mutant, Mutations

Fate = Literal["killed", "out of time", "survived", "no test"]

#: A test that takes longer than this on the unchanged code is left to `make test`.
SLOWEST_SECONDS = 4.0
#: A test hangs when it takes this many times its usual time and one of these more: seconds of the
#: processor in an endless loop, however busy the machine is, or seconds in which nothing happens.
_PATIENCE = 5.0
_GRACE_CPU_SECONDS = 1.0
_GRACE_SECONDS = 6.0
#: Seconds between two looks at the processor's time.
_LOOK_SECONDS = 0.5
#: Words in the names of functions that forked children call.
_FORKED = ("child", "disown", "fork", "reinit")
#: Memory for a mutant that allocates without end.
_MEMORY_BYTES = 4 << 30


@dataclass
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        fate: How it ended.
        test: The test that failed or hung; "" if none.
    """

    mutant: Mutant
    fate: Fate
    test: str = ""


@dataclass
class _Trial:
    """One mutant's process."""

    mutant: Mutant
    tests: list[str]
    process: int
    pipe: int
    number: int = 0
    deadline: float = 0.0
    cpu_limit: float = 0.0


class Campaign:
    """The plugin: `pytest_runtestloop` tries the mutants in place of running the tests.

    Attributes:
        verdicts: What became of each mutant that was tried.
        left_out: The number of mutants for which no time was left.
    """

    def __init__(
        self,
        mutations: dict[str, Mutations],
        chosen: list[Mutant],
        line_tests: LineTests,
        *,
        package: Path,
        processes: int,
        near_seconds: float,
        seconds: float,
        report: Callable[[Verdict], object],
    ) -> None:
        """Plan a campaign.

        Args:
            mutations: The mutants of each module, by its path below the package.
            chosen: The mutants to try, in this order.
            line_tests: Which test runs which line.
            package: The folder of the package that is imported.
            processes: How many mutants to try side by side.
            near_seconds: The usual time of all tests that one mutant is tried on, quickest first.
            seconds: When to begin no further mutant, after what had to be learned of the tests.
            report: Called with each verdict.
        """
        self.verdicts: list[Verdict] = []
        self.left_out = 0
        self.failed_before: list[str] = []
        self._mutations = mutations
        self._chosen = chosen
        self._line_tests = line_tests
        self._package = package
        self._processes = processes
        self._near_seconds = near_seconds
        self._seconds = seconds
        self._report = report
        self._items: dict[str, pytest.Item] = {}
        self._failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn what is not known of the tests, then try the mutants.

        Returns:
            True: pytest runs no tests itself.

        Raises:
            Interrupted: The tests could not be collected.
        """
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        self._items = {item.nodeid: item for item in session.items}
        unknown = self._line_tests.missing({name: item.path for name, item in self._items.items()})
        if unknown:
            self._learn(unknown)
            self._line_tests.save()
        deadline = time.monotonic() + self._seconds
        records = self._line_tests.records
        self.failed_before = [name for name in self._items if not records[name].passed]
        self._line_tests.index(
            name for name in self._items if records[name].seconds <= SLOWEST_SECONDS
        )
        functions = LiveFunctions()
        # What exists by now is neither walked nor freed in the children.
        gc.collect()
        gc.freeze()
        self._try_all(functions, deadline)
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._failed = True

    # -- what the tests do on the unchanged code

    def _learn(self, names: list[str]) -> None:
        """Run tests under coverage.py, in children that leave nothing behind here.

        Raises:
            UsageError: A child ended before its time.
        """
        print(f"learning which of {len(names)} tests runs which line", flush=True)
        shares = [names[number :: self._processes] for number in range(self._processes)]
        children = [self._learn_share(share) for share in shares if share]
        failed = False
        for process, reader in children:
            with os.fdopen(reader) as file:
                text = file.read()
            failed = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 or failed
            for name, record in json.loads(text or "{}").items():
                self._line_tests.add(name, self._items[name].path, TestRecord(**record))
        if failed:
            raise pytest.UsageError("the tests ended their process on the unchanged code")

    def _learn_share(self, names: list[str]) -> tuple[int, int]:
        """Run some of the tests in a child.

        Returns:
            The child, and a pipe from which the records of its tests can be read.
        """
        reader, writer = os.pipe()
        process = os.fork()
        if process:
            os.close(writer)
            return process, reader
        os.close(reader)
        code = 1
        try:
            os.setpgid(0, 0)
            self._prepare(f"learn-{reader}")
            records = {name: vars(record) for name, record in self._measure(names)}
            with os.fdopen(writer, "w") as file:
                json.dump(records, file)
            code = 0
        finally:
            os._exit(code)

    def _measure(self, names: list[str]) -> Iterator[tuple[str, TestRecord]]:
        measured = coverage.Coverage(
            data_file=None, config_file=False, source=[str(self._package)], messages=False
        )
        measured.start()
        seconds: dict[str, float] = {}
        passed: dict[str, bool] = {}
        for number, name in enumerate(names):
            following = names[number + 1] if number + 1 < len(names) else None
            measured.switch_context(name)
            began = time.monotonic()
            passed[name] = self._run(name, following)
            seconds[name] = time.monotonic() - began
        measured.stop()
        data = measured.get_data()
        files = {path: self._name(path) for path in data.measured_files()}
        records = {name: TestRecord(seconds[name], passed[name]) for name in names}
        for path, file in files.items():
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    if context in records:
                        records[context].lines.setdefault(file, []).append(line)
        yield from records.items()

    def _name(self, path: str) -> str:
        return str(Path(path).relative_to(self._package))

    # -- the mutants

    def _try_all(self, functions: LiveFunctions, deadline: float) -> None:
        trials: dict[int, _Trial] = {}
        waiting = list(reversed(self._chosen))
        try:
            while waiting or trials:
                if time.monotonic() > deadline:
                    self.left_out += len(waiting)
                    waiting.clear()
                while waiting and len(trials) < self._processes:
                    trial = self._begin(waiting.pop(), functions)
                    if trial is not None:
                        trials[trial.pipe] = trial
                self._wait(trials)
        finally:
            for trial in trials.values():
                _kill(trial.process)

    def _begin(self, mutant: Mutant, functions: LiveFunctions) -> _Trial | None:
        tests = self._tests_of(mutant)
        if not tests:
            self._judge(Verdict(mutant, "no test"))
            return None
        reader, writer = os.pipe()
        process = os.fork()
        if not process:
            os.close(reader)
            code = 3
            try:
                os.setpgid(0, 0)
                self._prepare(str(reader))
                code = self._try(mutant, tests, functions, writer)
            finally:
                os._exit(code)
        os.close(writer)
        trial = _Trial(mutant, tests, process, reader)
        self._allow(trial)
        return trial

    def _tests_of(self, mutant: Mutant) -> list[str]:
        tests = []
        left = self._near_seconds
        known = self._line_tests.of(mutant.file, *mutant.lines)
        if not known or any(word in mutant.function for word in _FORKED):
            # coverage.py does not see what forked children run.
            forking = [name for name in self._items if "fork" in name or "child" in name]
            known = [name for name in forking if self._line_tests.records[name].passed] + known
        for name in known:
            left -= self._line_tests.records[name].seconds
            if left < 0:
                break
            tests.append(name)
        return tests

    def _allow(self, trial: _Trial) -> None:
        usual = self._line_tests.records[trial.tests[trial.number]].seconds
        trial.deadline = time.monotonic() + _PATIENCE * usual + _GRACE_SECONDS
        trial.cpu_limit = _cpu_seconds(trial.process) + _PATIENCE * usual + _GRACE_CPU_SECONDS

    def _wait(self, trials: dict[int, _Trial]) -> None:
        """Wait until a child reports or ends, or the time of one is up."""
        if not trials:
            return
        for pipe in select.select(list(trials), [], [], _LOOK_SECONDS)[0]:
            trial = trials[pipe]
            done = os.read(pipe, 4096)
            if done:
                # A byte for each test that passed.
                trial.number += len(done)
                if trial.number < len(trial.tests):
                    self._allow(trial)
            else:
                self._end(trials.pop(pipe))
        for trial in list(trials.values()):
            hangs = _cpu_seconds(trial.process) > trial.cpu_limit
            if hangs or time.monotonic() > trial.deadline:
                self._end(trials.pop(trial.pipe), out_of_time=True)

    def _end(self, trial: _Trial, *, out_of_time: bool = False) -> None:
        if out_of_time:
            _kill(trial.process)
        os.close(trial.pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(trial.process, 0)[1])
        _kill(trial.process)  # What its tests have left.
        test = trial.tests[min(trial.number, len(trial.tests) - 1)]
        if out_of_time:
            self._judge(Verdict(trial.mutant, "out of time", test))
        elif code == 0:
            self._judge(Verdict(trial.mutant, "survived"))
        else:
            self._judge(Verdict(trial.mutant, "killed", test))

    def _judge(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        self._report(verdict)

    # -- in a child

    def _prepare(self, name: str) -> None:
        """Keep what tests print and write to this process."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        folder = Path("build/mutants/tmp", name).resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        config = next(iter(self._items.values())).config
        # The option has been read by now; a child must not delete the folders of another one.
        config._tmp_path_factory._given_basetemp = folder  # type: ignore[attr-defined]  # noqa: SLF001

    def _try(self, mutant: Mutant, tests: list[str], functions: LiveFunctions, pipe: int) -> int:
        """Run the tests on a mutant.

        Returns:
            0 if all pass.
        """
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        module = self._mutations[mutant.file].code(mutant.number)
        if not functions.put(module):
            return 0  # The compiler makes the same of both.
        for number, name in enumerate(tests):
            following = tests[number + 1] if number + 1 < len(tests) else None
            if not self._run(name, following):
                return 1
            os.write(pipe, b".")
        return 0

    def _run(self, name: str, following: str | None) -> bool:
        item = self._items[name]
        self._failed = False
        item.ihook.pytest_runtest_protocol(
            item=item, nextitem=None if following is None else self._items[following]
        )
        return not self._failed


def _cpu_seconds(process: int) -> float:
    """Return what a child has used of the processor; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kill(process: int) -> None:
    """End a trial's processes, all of which are in the group of the first."""
    try:
        os.killpg(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
