"""One tenant's life under one contract: what happened, what each move gained or cost, why.

`events` are what a life consists of. `watching` keeps a diary of a project while the contract is
played, `writing` makes events of the diary and the log, `life` puts them together, and `telling`
makes sentences of them. Watching changes nothing: a watched run is the unwatched one, to the digit.
"""
