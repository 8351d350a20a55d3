"""The commands that change or inspect a running cluster, each said once.

From its function, with its parameters and docstring, follow the command of the control protocol,
the method of `ClusterClient`, the command of `purgatory-broker`, and its row in
docs/reference/broker_commands.md.
"""
