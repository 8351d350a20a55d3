"""The data pipeline on Spark: traces, replay, batch outcomes, analysis, report.

Needs the extra `[spark]`.
"""
