"""Imports kafka-python, which builds batches of records, without a warning.

On Python 3.11 and 3.12 kafka-python reads the definition of each message by deprecated functions,
when it is imported. Tests that turn warnings into errors would fail there.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

__all__ = ["kafka"]
