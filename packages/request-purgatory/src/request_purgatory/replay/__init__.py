"""The replay of recorded requests on virtual time: the host interface of the data pipeline."""
