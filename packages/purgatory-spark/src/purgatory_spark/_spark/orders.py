"""Orders of many numbers, with the processor's vectors.

NumPy sorts numbers with them, but argsorts of 64 bits take several times as long, and stable ones
again. So a number and its position are sorted as one number here.
"""

from __future__ import annotations

import numpy as np

from purgatory_spark._spark.arrays import Bools, Ints, Words


def stable_order(numbers: Ints | Words) -> Ints:
    """Return the order of numbers, of which equal ones stay in their order.

    >>> stable_order(np.array([30, -10, 30, 20])).tolist()
    [1, 3, 0, 2]
    """
    bits = len(numbers).bit_length()
    if not bits:
        return np.zeros(0, dtype=np.int64)
    least = numbers.min()
    if int(numbers.max()) - int(least) >= 2 ** (64 - bits):
        return np.argsort(numbers, kind="stable")
    packed: Words = (numbers - least).view(np.uint64) << np.uint64(bits)
    packed |= np.arange(len(numbers), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(2**bits - 1)
    return packed.view(np.int64)


def group_hashes(hashes: Words) -> tuple[Ints, Bools]:
    """Return an order in which equal hashes are adjacent, and which begin a group in it.

    Equal ones stay in their order:

    >>> order, is_first = group_hashes(np.array([9, 2**63, 9, 5], np.uint64))
    >>> order.tolist(), is_first.tolist()
    ([1, 3, 0, 2], [True, True, True, False])
    """
    low = np.uint64(2 ** (64 - len(hashes).bit_length()) - 1)
    order = stable_order(hashes & low)
    is_first = _differs(hashes[order])
    if (is_first & ~_differs((hashes & low)[order])).any():
        # Hashes that differ only in high bits are as improbable as equal ones of 48 bits.
        order = np.argsort(hashes, kind="stable")
        is_first = _differs(hashes[order])
    return order, is_first


def _differs(in_order: Words) -> Bools:
    """Return which numbers are not that before."""
    differs: Bools = np.ones(len(in_order), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=differs[1:])
    return differs
