"""Contracts: each plays a setting and gives its history.

`setting` is the seam, with what is played and the history that comes of it; `recording` is what
all contracts write down alike. `trading` is the market as a contract, with and without
displacement; `rules` say who is next and who makes room, and `queueing` plays them, as the
contracts of today. `registry` has all of them by name. `clairvoyant` is none of them, but the bound
that nobody can exceed. What comes before a setting or after a history is no concern of this room.
"""
