"""The record of what a stream's checkpoint was made with.

It keeps a checkpoint from being used with settings or endpoints that do not match its state.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from purgatory_spark._output_folder import read_json, write_json
from purgatory_spark._stream.job import StreamSettings
from purgatory_spark._stream.state.layout import OLDEST_VERSION, STATE_VERSION

_FILE = "purgatory-stream.json"
#: Settings that decide where a request's state is. The others may change from start to start.
_FIXED = ("shards", "route")

#: Values that checkpoints on disk have for `ticks`: of a stream without and with an idle timeout.
FOLDER_TICKS = "told"
CLOCK_TICKS = "the clock's"


class CheckpointError(ValueError):
    """A checkpoint can't be resumed as requested; nothing was read or written."""


def require_compatible_checkpoint(
    folder: Path, settings: StreamSettings, endpoints: dict[str, Any]
) -> bool:
    """Check that a checkpoint was made with these settings and endpoints, and record them.

    `endpoints`: identities of the stream's inputs and output, by name; and, as `ticks`,
    FOLDER_TICKS or CLOCK_TICKS. Returns `even_shards` of `delayed_operations`: false for a
    checkpoint that version 0.1.0 began.
    """
    file = folder / _FILE
    requested = {
        "state_version": STATE_VERSION,
        "settings": _recorded(settings),
        "endpoints": endpoints,
        "even_shards": True,
    }
    if file.exists():
        try:
            recorded: dict[str, Any] = read_json(file)
        except ValueError as error:
            raise CheckpointError(
                f"{file}: damaged, not the JSON that was written ({error}); restore the file, or "
                "choose another checkpoint and another output"
            ) from error
        _require_equal(folder, recorded, requested)
        _require_readable_logs(folder)
        requested["even_shards"] = recorded.get("even_shards", False)
    elif folder.is_dir() and any(folder.iterdir()):
        raise CheckpointError(
            f"{folder}: not a checkpoint of a purgatory stream, and not empty; choose another "
            "--checkpoint"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, requested)
    return bool(requested["even_shards"])


def _require_readable_logs(folder: Path) -> None:
    """Check the query's id, and the newest files of its logs, whose damage Spark does not name."""
    newest = [folder / "metadata"]
    for log in ("offsets", "commits"):
        numbered = [file for file in (folder / log).glob("*") if file.name.isdecimal()]
        newest += sorted(numbered, key=lambda file: int(file.name))[-1:]
    for file in newest:
        if not file.exists():
            continue
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            if file.name != "metadata":
                version, *lines = lines or [""]
                if version and not re.fullmatch(r"v\d+", version):
                    raise ValueError("no version in its first line")
            if not lines:
                raise ValueError("nothing in it")
            for line in lines:
                if line not in ("", "-"):  # an input that has not been read yet
                    json.loads(line)
        except ValueError as error:
            raise CheckpointError(
                f"{file}: damaged, not what Spark wrote ({error}); restore the file, or choose "
                "another checkpoint and another output"
            ) from error


def _recorded(settings: StreamSettings) -> dict[str, Any]:
    """Return the settings as JSON values, under the names that checkpoints on disk have."""
    return {
        "shards": settings.shards,
        "route": settings.route,
        "delay_ms": settings.watermark_delay_ms,
        "remember_ms": settings.key_retention_ms,
        "max_shard_mb": settings.max_shard_mb,
    }


def _require_equal(folder: Path, recorded: dict[str, Any], requested: dict[str, Any]) -> None:
    differences = []
    if not OLDEST_VERSION <= recorded["state_version"] <= STATE_VERSION:
        differences.append(
            f"its state has layout {recorded['state_version']}, and this version reads "
            f"{OLDEST_VERSION} to {STATE_VERSION}"
        )
    for name in _FIXED:
        before, now = recorded["settings"][name], requested["settings"][name]
        if before != now:
            differences.append(f"it was made with {name}={before}, not {now}")
    for name, now in requested["endpoints"].items():
        before = recorded["endpoints"].get(name)
        if before == now:
            continue
        if name == "ticks":
            word = "with" if before == CLOCK_TICKS else "without"
            differences.append(f"it was made {word} an idle timeout")
        else:
            differences.append(f"it was made with {name} {before!r}, not {now!r}")
    if differences:
        raise CheckpointError(
            f"{folder}: cannot resume this checkpoint: {'; '.join(differences)}. Start with what "
            "it was made with, or choose another --checkpoint and another --out"
        )
