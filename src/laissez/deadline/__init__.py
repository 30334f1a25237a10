"""Deadline jobs on cheap capacity that comes and goes, beside dear capacity that is always there.

Here live the policies for that choice behind one interface (`policy`, `classic`, `lindy`, and
`foresight` for those that know the future), a world of traces to try them in (`world`, `traces`,
`generator`, `statistics`), and what a person or a controller uses: `plan` and `pilot`. It may
import the model for the form of messages, and numpy. It knows nothing of the market, of a service,
or of any cloud's interface; studies and pictures of policies are `laissez.experiments.deadline`'s.
"""
