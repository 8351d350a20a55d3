"""The command `purgatory`."""
