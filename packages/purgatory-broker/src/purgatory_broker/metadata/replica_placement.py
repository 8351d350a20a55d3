"""The placement of new partitions' replicas on nodes."""

from __future__ import annotations


def default_assignment(
    nodes: list[int], partitions: int, factor: int, first: int
) -> list[list[int]]:
    """Assign replicas to new partitions in turn; return each one's nodes, the leader first.

    `first` is the position in `nodes`, modulo their number, of the first partition's leader.

    >>> default_assignment([0, 1, 2], partitions=4, factor=2, first=1)
    [[1, 2], [2, 0], [0, 1], [1, 2]]
    """
    count = len(nodes)
    return [
        [nodes[(first + index + step) % count] for step in range(factor)]
        for index in range(partitions)
    ]


def replica_list_error(replicas: list[int], factor: int, nodes: int) -> str | None:
    """Return why a manual assignment of one partition is invalid, in Kafka's words, or None."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        return f"{prefix} an empty replica list."
    if len(set(replicas)) < len(replicas):
        return f"{prefix} the same broker more than once: {replicas}."
    unknown = [node for node in replicas if not 0 <= node < nodes]
    if unknown:
        return f"{prefix} broker {unknown[0]}, but no such broker is registered."
    if len(replicas) != factor:
        return (
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    return None
