"""The state of the streaming job: what is pending, by shard."""
