"""The streaming job, its state, its inputs and outputs."""
