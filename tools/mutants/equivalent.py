"""The mutants that no test can tell from the core, each with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants.modules import CORE
from tools.mutants.mutations import Mutant

PATH = CORE / "tests/mutants/equivalent.toml"


@dataclass
class Equivalents:
    """The entries of the file.

    Attributes:
        reasons: The reason of each mutant, by its key; a change of "*" stands for all of a line.
        unused: The entries that no mutant has asked for so far.
    """

    reasons: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    unused: set[tuple[str, str, str, str]] = field(default_factory=set)

    @classmethod
    def load(cls, path: Path = PATH) -> Equivalents:
        """Read the file.

        Returns:
            Its entries.

        Raises:
            ValueError: An entry has other fields than `file`, `function`, `line`, `changes` and
                `reason`, or no reason.
        """
        found = cls()
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            if set(entry) != {"file", "function", "line", "changes", "reason"}:
                raise ValueError(f"{path}: unexpected fields in {entry!r}")
            if not entry["reason"].strip():
                raise ValueError(f"{path}: no reason in {entry!r}")
            for change in entry["changes"]:
                key = (entry["file"], entry["function"], entry["line"], change)
                if key in found.reasons:
                    raise ValueError(f"{path}: named twice: {key!r}")
                found.reasons[key] = entry["reason"]
        found.unused = set(found.reasons)
        return found

    def has(self, mutant: Mutant) -> bool:
        """Look a mutant up.

        Returns:
            True if it is named.
        """
        for key in (mutant.key, (*mutant.key[:3], "*")):
            if key in self.reasons:
                self.unused.discard(key)
                return True
        return False

    def stale(self, files: Iterable[str]) -> list[tuple[str, str, str, str]]:
        """Return the entries of these files that name no mutant, once `has` saw all of them."""
        return sorted(key for key in self.unused if key[0] in set(files))
