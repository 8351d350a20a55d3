"""Mutation tests of the core: `make mutants`.

A mutant is the core with one small change, such as `<=` for `<` or a statement left out. Tests that
pass on it say nothing about the changed line. `make mutants` fails if a mutant survives the tests
that run its line, and the core's tests/mutants/equivalent.toml does not say why no test can tell
it.

It is a tool of our own, because neither mutmut 3.8 nor cosmic-ray 8.7 does this job. Neither of
them leaves statements out or negates conditions, and most of what lived here was found so. mutmut
leaves decorated functions alone, so all properties, and renames methods, which the tests on stack
depth and signatures notice. cosmic-ray writes into the sources, and starts pytest for each mutant:
some 15 hours for the 2,500 of the core. Neither knows Cython or C.

`mutations` makes mutants of Python modules by their syntax trees. `campaign` is a pytest plugin: it
collects once, learns from coverage which test runs which line, and then forks a process for each
mutant of the interpreted build. `native` changes the text of what is only compiled, and builds that
extension again.
"""
