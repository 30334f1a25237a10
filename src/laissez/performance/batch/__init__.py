"""Batch jobs: so many hours of work on any node that will do, with checkpoints and a deadline."""

from laissez.performance.batch.job import BatchJob
from laissez.performance.batch.table import Gpus, UnknownTool
from laissez.performance.batch.work import BadBatch, Work

__all__ = ["BadBatch", "BatchJob", "Gpus", "UnknownTool", "Work"]
