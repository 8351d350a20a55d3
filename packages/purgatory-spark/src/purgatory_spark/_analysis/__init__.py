"""Analyses of outcomes, and the report on them."""
