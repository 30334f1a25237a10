"""GPUs and what connects them: bytes per second of one GPU, by how far away the other one is.

Two GPUs are in one scale-up domain (a host, or several that NVLink joins: the same switches and
so the same rate), in one rack, or farther apart. Sources, all per GPU and direction:

- Scale-up: H100 450 GB/s, the vendor's figure, which NCCL reaches (445 GB/s for 8 GPUs and
  512 MiB); A100 243 GB/s, as Sailor measured with 4 GPUs (the vendor says 300, NCCL reaches 222).
- Rack: a network card of its own for each GPU, 50 GB/s beside an H100 and 25 beside an A100, the
  vendor's figures for a node of 8.
- Far: what Sailor measured between nodes in a cloud's zone, over the node's 4 GPUs: 13.5 GB/s for
  A100-80, 6.0 for A100-40. Between two zones of one region the same was measured, so one figure
  does for both. Nobody measured an H100: it gets twice an A100-80's rate, as its card is twice as
  fast.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Distance(IntEnum):
    """Of two GPUs; a greater one is slower to cross."""

    HOST = 0
    DOMAIN = 1
    RACK = 2
    FAR = 3


class Gpu(NamedTuple):
    """A kind of GPU: whose profile it runs by, its memory, its links."""

    name: str
    profile: str
    memory_bytes: int
    scale_up_bytes_per_s: float
    rack_bytes_per_s: float
    far_bytes_per_s: float

    def link_bytes_per_s(self, distance: Distance) -> float:
        if distance <= Distance.DOMAIN:
            return self.scale_up_bytes_per_s
        return self.rack_bytes_per_s if distance == Distance.RACK else self.far_bytes_per_s


H100 = Gpu("H100", "GH-96", 85_899_345_920, 450e9, 50e9, 6.8e9)
A100_80 = Gpu("A100-80", "A100-80", 85_899_345_920, 243e9, 25e9, 3.4e9)
A100_40 = Gpu("A100-40", "A100-40", 42_338_615_296, 243e9, 25e9, 1.5e9)

GPUS = {gpu.name: gpu for gpu in (H100, A100_80, A100_40)}
