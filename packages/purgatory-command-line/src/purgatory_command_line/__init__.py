"""What the commands `purgatory` and `purgatory-broker` share."""
