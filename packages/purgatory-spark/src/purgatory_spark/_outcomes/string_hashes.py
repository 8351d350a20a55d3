"""Hash many strings at once, with NumPy on Arrow's buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from purgatory_spark._spark.arrays import Words
from purgatory_spark._spark.hashes import words_of

# Odd numbers with bits all over, which are those of xxHash.
_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_WORD_BYTES = 8
#: At position k, ones in the first k bytes of a little-endian word.
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_WORD_BYTES + 1)], dtype=np.uint64)
#: What is mixed in for a null, which must differ from an empty string.
_NULL = np.uint64(0x165667B19E3779F9)


def hash_strings(strings: pa.Array, seeds: Words) -> Words:
    """Hash strings to 64 bits.

    Equal strings with equal seeds have equal hashes. Two others have the same one with the
    probability of random numbers, as long as nobody has searched for them. Null is a value of its
    own.

    >>> hashes = hash_strings(pa.array(["a", "b", "a", None, ""]), np.zeros(5, np.uint64)).tolist()
    >>> [hashes.index(number) for number in hashes]
    [0, 1, 0, 3, 4]
    """
    if not len(strings):
        return np.zeros(0, dtype=np.uint64)
    words, at, left = words_of(strings)
    hashes: Words = _mixed(left.astype(np.uint64) + seeds)
    # The first words of all strings are mixed in, then the second words of those that have one.
    longer = None
    while True:
        word = words[at]
        word &= _MASKS[np.minimum(left, _WORD_BYTES)]
        word *= _PRIME_2
        word ^= word >> np.uint64(31)
        if longer is None:
            hashes ^= word
            _mix(hashes)
        else:
            word ^= hashes[longer]
            _mix(word)
            hashes[longer] = word
        further = np.flatnonzero(left > _WORD_BYTES)
        if not len(further):
            break
        longer = further if longer is None else longer[further]
        at, left = at[further] + np.int32(_WORD_BYTES), left[further] - np.int32(_WORD_BYTES)
    if strings.null_count:
        is_null = strings.is_null().to_numpy(zero_copy_only=False)
        hashes[is_null] = _mixed(seeds[is_null] ^ _NULL)
    return hashes


def _mix(words: Words) -> None:
    """Spread every bit over the whole word, in place."""
    words *= _PRIME_1
    words ^= words >> np.uint64(29)
    words *= _PRIME_2
    words ^= words >> np.uint64(32)


def _mixed(words: Words) -> Words:
    mixed = words.copy()
    _mix(mixed)
    return mixed
