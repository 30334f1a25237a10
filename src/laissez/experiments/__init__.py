"""Whole programs that play many runs and say what came out: figures, comparisons, studies.

What all of them share lies here:

processes, runs           many tasks on all cores, and each of them only once
metrics, gang_waits       what one run of a contract was like
intervals, summaries      what a few seeds say about all
picture_file, page        what a picture is written as, and the paper, ink and legend of all of them
contract_pictures         how a contract is drawn, and contracts beside each other

Each kind of experiment has a room of its own: `figures` are ours, which `laissez reproduce` makes;
`scenario` is somebody's own cluster under several contracts; `deadline` compares policies for work
with a deadline. `life_picture` draws one tenant's life. These rooms do not know of each other.

An experiment decides what is run and with which seeds, and never how anything acts in time: that is
the simulator's, and the policies'. It may import simulation, deadline and whatever these may; and
numpy and matplotlib, the latter only where a picture is drawn. Only `runs` writes files beside
pictures, and only `processes` starts any.
"""
