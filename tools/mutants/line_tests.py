"""Which test runs which line, learned by coverage.py and kept from one run to the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class TestRecord:
    """What one test did on the unchanged code.

    Attributes:
        seconds: How long it took, measured by coverage.py meanwhile.
        passed: Whether it passed; what fails on the unchanged code can't judge a mutant.
        lines: The lines that it ran, by file.
        digest: Of all files that decide about the above.
    """

    __test__ = False

    seconds: float = 0.0
    passed: bool = True
    lines: dict[str, list[int]] = field(default_factory=dict)
    digest: str = ""


class LineTests:
    """The records of all tests, and an index of them by line.

    The record of a test holds until its own file changes, a module of which it ran a line, or what
    all tests share.
    """

    def __init__(self, path: Path, package: Path, shared: Iterable[Path]) -> None:
        """Load the records from `path`, if there are any.

        Args:
            path: The file of the records.
            package: The folder of the measured modules.
            shared: What all tests use.
        """
        self._path = path
        self._package = package
        self._shared = list(shared)
        self._digests: dict[str, str] = {}
        self._index: dict[tuple[str, int], list[str]] = {}
        self.records: dict[str, TestRecord] = {}
        if path.exists():
            stored: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
            for name, record in stored.items():
                self.records[name] = TestRecord(**record)

    def missing(self, tests: dict[str, Path]) -> list[str]:
        """Forget the records that hold no more, and return the tests that have none.

        Args:
            tests: The file of each test.

        Returns:
            The tests to run again.
        """
        for name, file in tests.items():
            record = self.records.get(name)
            if record is not None and record.digest != self._digest_of(file, record):
                del self.records[name]
        return [name for name in tests if name not in self.records]

    def add(self, name: str, file: Path, record: TestRecord) -> None:
        """Keep what a test did."""
        record.digest = self._digest_of(file, record)
        self.records[name] = record

    def save(self) -> None:
        """Write the records."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = {name: vars(record) for name, record in self.records.items()}
        self._path.write_text(json.dumps(content), encoding="utf-8")

    def _digest_of(self, test: Path, record: TestRecord) -> str:
        digest = hashlib.sha256()
        for path in [test, *self._shared, *(self._package / file for file in sorted(record.lines))]:
            key = str(path)
            if key not in self._digests:
                content = path.read_bytes() if path.exists() else b""
                self._digests[key] = hashlib.sha256(content).hexdigest()
            digest.update(self._digests[key].encode())
        return digest.hexdigest()[:16]

    def index(self, known: Iterable[str]) -> None:
        """Index the tests of this run that passed, quickest first."""
        passed = [name for name in known if self.records[name].passed]
        for name in sorted(passed, key=lambda name: self.records[name].seconds):
            for file, lines in self.records[name].lines.items():
                for line in lines:
                    self._index.setdefault((file, line), []).append(name)

    def of(self, file: str, first: int, last: int) -> list[str]:
        """Return the tests that run one of the lines, quickest first."""
        names: dict[str, None] = {}
        for line in range(first, last + 1):
            names.update(dict.fromkeys(self._index.get((file, line), ())))
        return sorted(names, key=lambda name: self.records[name].seconds)
