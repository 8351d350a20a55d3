"""The command `purgatory-broker`."""
