"""How the market is measured: the load put on it, the clock and the scales held against it.

Uses the market's public interface only, and the naive market of the tests to compare it with.
Every market that is measured is built in a process of its own (`apart`), so that none inherits
another's memory, and nothing here judges: `goals` says what was met, and nobody fails for it.
"""
