"""A soak: every operation of the public API at random, for as long as asked, and every end of each counted.

`python -m benchmarks.soak`, or `make soak`. A campaign is a row of rounds. In each round eight
threads, an event loop and, on the compiled build, a main thread full of signals share one purgatory
and one timer for some ten thousand operations. Then the purgatory is shut down, often while the
others go on using it. The round's verdict looks at every operation: each must have ended exactly
once, with exactly the callbacks that its outcome demands.
"""
