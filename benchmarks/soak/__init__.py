"""A soak test: random operations of the whole public API, with a check of how each one ended.

`python -m benchmarks.soak`, or `make soak`. A campaign is a series of rounds. In each round eight
threads and an event loop share one purgatory and one timer for some ten thousand operations; on the
compiled build, a main thread that signals interrupt takes part as well. Then the purgatory is shut
down, often while the threads go on using it. After the round, every operation must have ended
exactly once, with exactly the callbacks of its outcome.
"""
