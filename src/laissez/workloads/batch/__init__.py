"""Batch jobs: so many hours of work on any node that will do, with checkpoints and a deadline."""

from laissez.workloads.batch.job import BatchJob
from laissez.workloads.batch.table import Gpus, UnknownTool
from laissez.workloads.batch.work import BadBatch, Work

__all__ = ["BadBatch", "BatchJob", "Gpus", "UnknownTool", "Work"]
