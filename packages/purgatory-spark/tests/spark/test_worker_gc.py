"""Workers keep what they have imported out of the collector, whenever they imported it."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from purgatory_spark._spark import worker_gc


def test_objects_are_frozen_again_only_after_further_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(sys.modules)))
    monkeypatch.setattr(worker_gc, "_frozen_modules", 0)

    worker_gc.freeze_imported_objects()
    worker_gc.freeze_imported_objects()
    assert len(frozen) == 1

    monkeypatch.setitem(sys.modules, "imported_by_a_task", ModuleType("imported_by_a_task"))
    worker_gc.freeze_imported_objects()
    worker_gc.freeze_imported_objects()
    assert len(frozen) == 2
