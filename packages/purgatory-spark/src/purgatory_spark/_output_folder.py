"""Output folders that appear complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: A file that marks a folder as made by `output_folder`, which may replace it.
_MARKER = ".purgatory"


class OutputExistsError(FileExistsError):
    """The output exists already and may not be replaced."""


@contextmanager
def output_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Make a folder to write into, and rename it to `target` at the end of the block.

    Until then the folder is beside `target`, under a hidden name. If the block raises, the folder
    is removed and an earlier `target` is left untouched. If `target` is a symbolic link, the folder
    that it links to is made or replaced, and the link stays.
    """
    target = target.resolve()
    if target.exists():
        if not replace:
            raise OutputExistsError(
                f"{target} exists already: choose another --out, or replace it with --force"
            )
        if not target.is_dir() or (not (target / _MARKER).exists() and any(target.iterdir())):
            raise OutputExistsError(
                f"{target} was not made by purgatory, so it is not replaced: choose another --out"
            )
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        (partial / _MARKER).touch()
        if target.exists():
            _replace_folder(target, partial)
        else:
            partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _replace_folder(target: Path, replacement: Path) -> None:
    old = target.with_name(f".{target.name}.replaced-{os.getpid()}")
    target.rename(old)
    try:
        replacement.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def new_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def write_json(path: Path, content: Any) -> None:
    """Write `content` to a file as indented JSON in UTF-8; see `write_text_durably`."""
    write_text_durably(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text_durably(path: Path, text: str) -> None:
    """Write a file in UTF-8 that has its old content or its new one, whenever this is killed."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name
        finally:
            os.close(folder)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
