"""The machine on which something was measured."""

import os
import platform
from pathlib import Path

import msgspec

CPUINFO = Path("/proc/cpuinfo")


class Machine(msgspec.Struct, frozen=True):
    cpu: str
    cores: int
    python: str
    platform: str
    load_average_before: float

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores (one used), {self.python}, {self.platform}"


def this_machine() -> Machine:
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=f"{platform.system()} {platform.machine()}",
        load_average_before=round(os.getloadavg()[0], 2),
    )


def _cpu() -> str:
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown CPU"
