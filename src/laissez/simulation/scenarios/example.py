"""A scenario to begin with, as text: `laissez sim init` writes it."""

EXAMPLE = """\
# What would a market do to this cluster?
#   laissez sim check scenario.yaml
#   laissez sim compare scenario.yaml --plot contracts.svg
title: A small cluster on a busy day

# How many of each level are in one of the level above it: 8 H100 and 8 A100, in hosts of 4.
# Or the file of a cluster as `laissez topology apply` takes it:  cluster: cluster.yaml
cluster:
  h100: {zone: 1, rack: 1, host: 2, gpu: 4}
  a100: {zone: 1, rack: 1, host: 2, gpu: 4}

# In dollars an hour for a node. Trees named h100 and a100 have list prices; others need on_demand.
prices:
  h100: {on_demand: 6.88, spot: 2.06, base: 4.82}
  a100: {on_demand: 3.43, spot: 1.41, base: 2.40}

duration: 20m

tenants:
  # A chat service that would keep 4 H100 busy, with the ups and downs of a real one.
  - kind: inference
    name: chat
    model: Llama-3.1-8B
    objective: planner-default      # or {ttft_ms: 500, itl_ms: 50}
    load: {service: conv, nodes: 4}

  # A coding assistant: long prompts that come in bursts. It arrives later.
  - kind: inference
    name: code
    model: Llama-3.1-8B
    objective: high-throughput
    arrives: 4m
    load: {service: code, nodes: 2}

  # Two fine-tunings, each of which needs about 4 H100 until its deadline.
  - kind: training
    name: tune
    count: 2
    jitter: 3m                      # each arrives up to so much later, by chance
    model: OPT-350
    nodes: 4                        # or samples: 50000 and epochs: 20
    deadline: 16m                   # after its arrival
    reconfigure: 1m

  # A batch job of 5 minutes on an H100.
  - kind: batch
    name: fold
    arrives: 6m
    work: 5m
    deadline: 13m
    cold_start: 2m
    checkpoint_every: 2m
    budget: 5.00                    # in dollars; without one it follows from what it needs alone
"""
