"""Sessions, worker processes and what they need of the machine."""
