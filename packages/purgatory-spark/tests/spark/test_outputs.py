"""Tests of output folders and JSON files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from purgatory_spark._output_folder import OutputExistsError, output_folder, read_json, write_json


def make(target: Path, content: str, *, replace: bool = False) -> None:
    """Make an output folder with one file."""
    with output_folder(target, replace=replace) as folder:
        (folder / "file").write_text(content)


def test_folder_appears_at_the_end_of_the_block(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    with output_folder(target) as folder:
        assert not target.exists()
        assert folder.parent == target.parent
        (folder / "file").write_text("whole")
    assert (target / "file").read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["b"]


def test_failure_leaves_an_earlier_output_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "out"
    make(target, "earlier")

    def fail_half_way() -> None:
        with output_folder(target, replace=True) as folder:
            (folder / "file").write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert (target / "file").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_existing_output_is_replaced_only_on_request(tmp_path: Path) -> None:
    target = tmp_path / "out"
    make(target, "earlier")
    with (
        pytest.raises(
            OutputExistsError,
            match=r"out exists already: choose another --out, or replace it with --force",
        ),
        output_folder(target),
    ):
        pytest.fail("the block must not run")
    make(target, "later", replace=True)
    assert (target / "file").read_text() == "later"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "documents"
    target.mkdir()
    (target / "thesis").write_text("years of work")
    with pytest.raises(OutputExistsError, match="was not made by purgatory"):
        make(target, "later", replace=True)
    assert (target / "thesis").read_text() == "years of work"


def test_json_is_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "Пургаторий", "rows": [1, 2.5, None]})
    assert read_json(tmp_path / "a.json") == {"name": "Пургаторий", "rows": [1, 2.5, None]}


def test_file_has_its_old_content_until_the_new_one_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "record.json"
    write_json(file, {"number": 1})

    def fail(descriptor: int) -> None:
        assert json.loads(file.read_text()) == {"number": 1}
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space left"):
            write_json(file, {"number": 2})
    assert json.loads(file.read_text()) == {"number": 1}
    write_json(file, {"number": 2})
    assert json.loads(file.read_text()) == {"number": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]
