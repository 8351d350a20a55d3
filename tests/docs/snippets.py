"""The code in the documentation: which blocks each page has, and a process that runs them.

A page's Python blocks run in order in one namespace, as readers paste them. A `text` block after a
Python block, with "prints" between them, is what the block prints; `...` stands for anything.
Blocks that define tests with fixtures, or fixtures, are run by pytest.
"""

from __future__ import annotations

import ast
import doctest
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TIME_LIMIT_S = 120

_FOR_PYTEST = re.compile(r"^def test_\w+\(\w|^@pytest\.fixture", re.MULTILINE)
_FOR_SPARK = re.compile(r"\bspark\b|purgatory_spark")
#: Blocks of command lines; those that name no language have some, too.
_SHELLS = {"console", "sh", "shell"}
_VARIABLE = re.compile(r"[A-Z_]+=\S*")

#: Runs the blocks of standard input, and writes what each of them printed.
_RUNNER = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
printed = []
for number, code in enumerate(json.load(sys.stdin)):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, f"<block {number + 1}>", "exec"), names)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


@dataclass(frozen=True)
class Block:
    """A Python block of a page.

    Attributes:
        code: Its code.
        printed: What the page says that it prints; None if the page does not say.
    """

    code: str
    printed: str | None

    @property
    def is_for_pytest(self) -> bool:
        """True if pytest runs it."""
        return _FOR_PYTEST.search(self.code) is not None

    def difference(self, printed: str) -> str | None:
        """Return how something printed differs from what the page says; None if it does not."""
        example = doctest.Example("", self.printed or "")
        checker = doctest.OutputChecker()
        if self.printed is None or checker.check_output(example.want, printed, doctest.ELLIPSIS):
            return None
        return checker.output_difference(example, printed, doctest.ELLIPSIS)


def pages() -> list[str]:
    """Return the paths of the README and of all pages, below the repository."""
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found]


def text_of(page: str) -> str:
    """Return a page's text."""
    return (ROOT / page).read_text(encoding="utf-8")


def tokens(page: str) -> list[Token]:
    """Return what a page consists of, as the parser of the site reads it."""
    return MarkdownIt().parse(text_of(page))


def blocks(page: str) -> list[Block]:
    """Return the Python blocks of a page."""
    found: list[Block] = []
    prose = ""
    for token in tokens(page):
        if token.type == "inline":
            prose = token.content
        elif token.type == "fence":
            if token.info == "python":
                found.append(Block(token.content, None))
            elif token.info == "text" and found and prose.endswith("prints"):
                found[-1] = Block(found[-1].code, token.content)
            prose = ""
    return found


def needs_spark(page: str) -> bool:
    """Return True if a page's blocks need a Spark session."""
    return any(_FOR_SPARK.search(block.code) for block in blocks(page))


def needed_packages(page: str) -> set[str]:
    """Return the packages beside this one that a page's blocks import."""
    found = {"kafka"} if "purgatory_broker" in text_of(page) else set()
    for block in blocks(page):
        for node in ast.parse(block.code).body:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    found = {name.partition(".")[0] for name in found}
    return (
        found
        - sys.stdlib_module_names
        - {"request_purgatory", "purgatory_broker", "purgatory_spark"}
    )


def run_page(page: str, folder: Path) -> list[str]:
    """Run a page's blocks in a process of their own, as a user does, in `folder`.

    Returns:
        How what was printed differs from the page, for each block where it does.
    """
    plain = [block for block in blocks(page) if not block.is_for_pytest]
    ran = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input=json.dumps([block.code for block in plain]),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
        cwd=folder,
    )
    # A machine with other work beside may log that a timeout was late.
    errors = [line for line in ran.stderr.splitlines() if not line.endswith("ms late")]
    if ran.returncode or errors:
        return ["\n".join(errors) or f"exit code {ran.returncode}"]
    printed = json.loads(ran.stdout)
    found = [block.difference(each) for block, each in zip(plain, printed, strict=True)]
    return [difference for difference in found if difference is not None]


def run_tests(page: str, folder: Path) -> tuple[int, str]:
    """Run a page's blocks for pytest in `folder`.

    Returns:
        pytest's exit code, and what it printed.
    """
    code = "\n\n".join(block.code for block in blocks(page) if block.is_for_pytest)
    (folder / "test_of_page.py").write_text(code, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_of_page.py"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False, cwd=folder
    )
    return ran.returncode, ran.stdout + ran.stderr


def code_lines(page: str, *languages: str) -> list[str]:
    """Return the lines of a page's code in some languages; an indented block names none: ""."""
    code = [token for token in tokens(page) if token.type in {"fence", "code_block"}]
    return "".join(each.content for each in code if each.info in languages).splitlines()


def commands(page: str) -> list[list[str]]:
    """Return the command lines of a page, split into words, without variables before them."""
    found = []
    for line in "\n".join(code_lines(page, "", *_SHELLS)).replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        except ValueError:  # A drawing, not a command.
            continue
        while words and _VARIABLE.fullmatch(words[0]):
            words.pop(0)
        if words:
            found.append(words)
    return found
