"""Models of performance: how fast and how well work would run, and what one node more would change.

An application lives through nodes gained and lost, and answers what another node would do for it,
in its own unit of utility. Any contract can drive one: a market, a queue, a fair share. So there
is no price in this room, no budget and no order; and nothing in it runs the work itself. It may
import msgspec and of the model what a path is, reads no clock and no file, and draws nothing at
random.
"""
