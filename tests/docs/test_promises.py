"""The documentation's defaults and limits are the code's; `promises.py` has the tables."""

from __future__ import annotations

import pytest

from tests.docs.promises import PROMISES, Promise


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.constant)
def test_constant_is_the_one_that_the_documentation_promises(promise: Promise) -> None:
    pytest.importorskip(promise.package)
    text, value = promise.text(), promise.value()
    assert promise.phrase.format(value) in text
    # Else the phrase would say nothing of the constant.
    assert promise.phrase.format(value + 1) not in text
