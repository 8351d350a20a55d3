"""The published benchmark: requests at a target rate through either purgatory design."""
