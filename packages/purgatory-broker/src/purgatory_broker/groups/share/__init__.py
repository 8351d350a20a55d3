"""Share groups (KIP-932): their members, and the states of the partitions that they share."""
