"""What tenants want done: `projects`, each of which is work with an end and a worth.

`requests` reads windows of the public traces of requests and `fitted` makes them up like those;
`oblivious` is a training job that knows nothing of distances; `population` draws who comes. Nothing
here knows who holds which node. It imports models of performance, adapters to value them, and of
the simulator only streams of chance.
"""
