"""The entry to the pipeline for notebooks and scripts, and the results that Jupyter shows."""
