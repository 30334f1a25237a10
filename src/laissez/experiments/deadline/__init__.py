"""Studies of deadline policies: which of them save how much, on which traces, in which settings.

`study` says what a study and its result are, `reading` reads one from YAML (those that come with
laissez lie in `studies`), `evaluation` runs it, `tallying` adds up its runs, and `figures` draws
what came out. The policies and their world are those of `laissez.deadline`, which knows nothing of
studies.
"""
