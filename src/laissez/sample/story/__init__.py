"""A minute of the market, told in a terminal: two hours of a small cluster, played from a script.

Nothing imports it, and it needs no service. It speaks to the market
through the public interface only, and never reaches into it: what it shows is what any program
could have asked. To read it, start with `script` (what is said), then `scene` (what happens), then
`cluster`, `sentence`, `table` and `statement` (how it is shown), then `screen` (in what order, and
with which pauses).
"""
