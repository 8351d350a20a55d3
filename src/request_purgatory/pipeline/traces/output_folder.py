"""Output folders that appear whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class OutputExistsError(FileExistsError):
    """The output is there already and may not be replaced."""


@contextmanager
def output_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to write into, which becomes `target` at the end of the block.

    Until then it stands beside the target under another name. If the block raises, it is removed
    and what was at the target before is untouched. Of a link it is the folder behind it that is
    made or replaced.

    Args:
        target: the folder to make; its parents are made too.
        replace: put the new folder in an existing one's place. Only a folder that this function
            made is replaced.

    Raises:
        OutputExistsError: `target` exists and `replace` is false, or something else made it.
    """
    target = target.resolve()
    if target.exists():
        if not replace:
            raise OutputExistsError(
                f"{target} exists already: choose another --out, or --force to replace it"
            )
        if not target.is_dir() or (not (target / _MADE_HERE).exists() and any(target.iterdir())):
            raise OutputExistsError(
                f"{target} was not made by purgatory, so it is not replaced: choose another --out"
            )
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        (partial / _MADE_HERE).touch()
        if target.exists():
            old = target.with_name(f".{target.name}.replaced-{os.getpid()}")
            target.rename(old)
            try:
                partial.rename(target)
            except BaseException:
                old.rename(target)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


#: Marks a folder as one that may be replaced.
_MADE_HERE = ".purgatory"


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
