"""The command line: a thin face of the SDK, of topology files and of the journal.

A command is named like the method that it calls, takes the same options as its neighbours, and
says what it did to people or, with `--json`, to programs. Its file lies in the sub-room of those
who use it: `everybody`, `tenant`, `operator`, `evaluator`; what all of them need is in `terminal`.
`main` names every command. This room may import every room but the demo, beside click and rich. It
holds no rule of the market and speaks to a service only through `terminal.connection.connect`.
"""
