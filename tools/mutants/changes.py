"""What a change touches, by git."""

from __future__ import annotations

import re
import subprocess

from tools.mutants.modules import SOURCES

_FILE = re.compile(r"^\+\+\+ b/(.*)$")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(base: str) -> dict[str, set[int]]:
    """Return the lines of the package's modules that differ from a commit, by path below it.

    Args:
        base: A commit; the merge base of it and HEAD counts. In a clone that does not have it,
            nothing has changed.
    """
    found = subprocess.run(
        ["git", "merge-base", base, "HEAD"], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        print(f"mutants: this clone does not have {base}")
        return {}
    diff = subprocess.run(
        ["git", "diff", "--unified=0", "--no-color", found.stdout.strip(), "--", str(SOURCES)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines: dict[str, set[int]] = {}
    file = ""
    for line in diff.splitlines():
        if named := _FILE.match(line):
            file = named[1].removeprefix(f"{SOURCES}/")
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            # Where lines were only removed, the ones around the gap.
            lines.setdefault(file, set()).update(
                range(first, first + count) if count else (first, first + 1)
            )
    return lines
