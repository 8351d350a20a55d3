"""Manifests: the JSON files that say what a folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._output_folder import read_json

#: The manifest of a trace folder.
MANIFEST = "trace.json"


def read_manifest(folder: Path, what: str, file: str, hint: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = read_json(folder / file)
    except (FileNotFoundError, NotADirectoryError):
        raise TraceFormatError(f"{folder} is not {what} (no {file} in it); {hint}") from None
    except ValueError as error:
        raise TraceFormatError(f"{folder / file}: not valid JSON ({error})") from error
    return content


def is_trace_folder(path: str | Path) -> bool:
    """Return whether `path` is a trace folder, rather than something to import."""
    return (Path(path) / MANIFEST).is_file()
