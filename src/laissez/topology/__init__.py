"""What a cluster looks like: from a file that an operator writes to resources, and back.

`read_cluster` reads the YAML description of a cluster, or says all that is wrong with it at once;
`difference` plans how to get from the resources of a market to those of a file; `describe` folds
paths back into ranges, for people to read. This room may import `amounts`, and `documents`,
which has the lines of a file and shows what is wrong in them, and PyYAML for the types of nodes. It
never opens a file, never speaks to a market and never carries out what it plans.
"""

from laissez.documents import Problem
from laissez.topology.cluster import Cluster, ClusterResource, Floor, Guard, Tree
from laissez.topology.folding import Fold, describe, fold
from laissez.topology.plan import Change, ClusterPlan, GuardChange, LevelsOfTree, difference
from laissez.topology.ranges import expand
from laissez.topology.reading import RESOURCES_MAX, VERSION, TopologyError, read_cluster

__all__ = [
    "RESOURCES_MAX",
    "VERSION",
    "Change",
    "Cluster",
    "ClusterPlan",
    "ClusterResource",
    "Floor",
    "Fold",
    "Guard",
    "GuardChange",
    "LevelsOfTree",
    "Problem",
    "TopologyError",
    "Tree",
    "describe",
    "difference",
    "expand",
    "fold",
    "read_cluster",
]
