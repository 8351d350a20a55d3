"""The data pipeline on Spark: traces, replays, batch outcomes, streams, simulations and reports.

Needs the optional dependencies `request-purgatory[spark]`.
"""
