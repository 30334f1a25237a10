"""`topology apply`: from a file that describes a cluster to a market that has it.

The plan is `laissez.topology`'s; here it is shown, agreed on and carried out. What is held is never
withdrawn without a yes. What a cordon keeps out stays out: uncordoning brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
import msgspec

from laissez.cli.terminal import connection
from laissez.cli.terminal.amounts import counted, show_rate
from laissez.cli.terminal.answers import MANY_PATIENCE_S, end_with, refusals_in
from laissez.cli.terminal.documents import TopologyPlan
from laissez.cli.terminal.output import (
    ShownProgress,
    ask,
    dry_run_option,
    json_option,
    progress_bar,
    say,
    say_json,
    say_table,
    warn,
    yes_option,
)
from laissez.cli.terminal.sentences import guard_in_words
from laissez.client import Client
from laissez.model import (
    Answer,
    ChangeFloor,
    ChangeGuard,
    Instruction,
    NameLevels,
    OfferResource,
    Refused,
    WithdrawResource,
)
from laissez.model.sentences import no_commitment
from laissez.topology import (
    Cluster,
    ClusterPlan,
    ClusterResource,
    Guard,
    difference,
    expand,
    fold,
    read_cluster,
)

FOLDS_SHOWN = 8


class _Proposal(msgspec.Struct, frozen=True):
    """A plan, and what of the present market matters for it."""

    plan: ClusterPlan
    add: tuple[ClusterResource, ...]
    cordoned: tuple[str, ...]
    held: tuple[str, ...]

    def stages(self) -> tuple[list[Instruction], ...]:
        """What to send, each stage when the one before it is done."""
        return (
            [WithdrawResource(path) for path in self.plan.withdraw],
            [*self.levels()],
            [*self.guards()],
            [*self.floors()],
            [OfferResource(each.path, dict(each.attributes)) for each in self.add],
        )

    def guards(self) -> tuple[ChangeGuard, ...]:
        return tuple(
            ChangeGuard(
                each.tree,
                each.guard.rise_basis_points,
                each.guard.fall_micros_per_hour,
                each.guard.hold_us,
                each.guard.window_us,
                each.guard.notice_us,
                each.guard.commit_us,
            )
            for each in self.plan.guards
        )

    def levels(self) -> tuple[NameLevels, ...]:
        return tuple(NameLevels(each.tree, each.levels) for each in self.plan.levels)

    def floors(self) -> tuple[ChangeFloor, ...]:
        return tuple(ChangeFloor(each.scope, each.micros_per_hour) for each in self.plan.floors)

    def document(self) -> TopologyPlan:
        plan = self.plan
        return TopologyPlan(
            applied=False,
            withdraw=plan.withdraw,
            holdings_ended=len(self.held),
            levels=self.levels(),
            guards=self.guards(),
            floors=self.floors(),
            add=tuple(each.path for each in self.add),
            other_attributes=tuple(each.path for each in plan.changed),
            blocked=plan.blocked,
            cordoned=self.cordoned,
            unmentioned_floors=tuple(each.scope for each in plan.unmentioned_floors),
        )


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@yes_option
@dry_run_option
@json_option
def apply(file: Path, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Make the market have what a file describes.

    Shows the plan, asks before it ends a holding, and carries it out. Trees that the file does not
    name are left alone, and so are floors and guards that it does not mention.
    """
    cluster = read_cluster(_text_of(file), name=str(file))
    with connection.connect() as client:
        proposal = _propose(client, cluster)
        if not as_json:
            _show(proposal)
        if dry_run:
            if as_json:
                say_json(proposal.document())
            else:
                _warn_of_no_commitment(_without_by_then(client, cluster, proposal))
            return
        if proposal.held and not yes:
            _ask(proposal)
        try:
            with progress_bar("applying", as_json=as_json) as progress:
                answers = _carry_out(client, proposal, progress)
            unbound = _trees_without_commitment(client, cluster)
        except KeyboardInterrupt:
            if not as_json:
                warn("laissez: stopped, with some of it done; apply the file again for the rest")
            raise
    refused = refusals_in(answers)
    if as_json:
        say_json(msgspec.structs.replace(proposal.document(), applied=True, refused=refused))
    elif answers:
        say(f"{len(answers) - len(refused):,} of {len(answers):,} changes were made")
    if not as_json:
        _warn_of_no_commitment(unbound)
    end_with(refused, as_json=as_json)


def _warn_of_no_commitment(trees: Iterable[str]) -> None:
    for tree in trees:
        warn(f"laissez: {no_commitment(tree)}")


def _without_by_then(client: Client, cluster: Cluster, proposal: _Proposal) -> tuple[str, ...]:
    """Trees that would have no commitment. One that is new, without a guard, gets one."""
    planned = {each.tree: each.commit for each in proposal.guards()}
    present = set(client.status().trees)
    without = set(_trees_without_commitment(client, cluster))
    return tuple(
        tree.name
        for tree in cluster.trees
        if (not planned[tree.name] if tree.name in planned else tree.name in without & present)
    )


def _trees_without_commitment(client: Client, cluster: Cluster) -> tuple[str, ...]:
    bound = {each.tree for each in client.floors().guards if each.commit}
    return tuple(tree.name for tree in cluster.trees if tree.name not in bound)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} is not text in UTF-8; save it as such") from None


def _propose(client: Client, cluster: Cluster) -> _Proposal:
    present = client.resources()
    told = client.floors()
    guards = {
        each.tree: Guard(each.rise, each.fall, each.hold, each.window, each.notice, each.commit)
        for each in told.guards
    }
    plan = difference(
        cluster,
        {each.resource: each.attributes for each in present},
        floors=told.floors,
        guards=guards,
        new_trees=Guard(notice_us=told.new_notice, commit_us=told.new_commit),
        levels=client.status().levels,
    )
    cordons = set(told.cordons)
    kept_out = {each.path for each in plan.add if _is_under(each.path, cordons)}
    owned = {each.resource for each in present if each.owner is not None}
    return _Proposal(
        plan,
        tuple(each for each in plan.add if each.path not in kept_out),
        tuple(sorted(kept_out)),
        tuple(path for path in plan.withdraw if path in owned),
    )


def _carry_out(
    client: Client, proposal: _Proposal, progress: ShownProgress
) -> list[Answer | Refused]:
    stages = proposal.stages()
    total = sum(map(len, stages))
    answers: list[Answer | Refused] = []
    for stage in stages:
        answers += client.send_all(
            stage, progress=_part_of(len(answers), total, progress), patience_s=MANY_PATIENCE_S
        )
    return answers


def _part_of(before: int, total: int, progress: ShownProgress) -> ShownProgress:
    """The progress of a part, as progress of the whole."""
    return lambda done, _: progress(before + done, total)


def _is_under(path: str, scopes: set[str]) -> bool:
    while path:
        if path in scopes:
            return True
        path = path.rpartition("/")[0]
    return False


def _ask(proposal: _Proposal) -> None:
    ask(f"Withdraw what is held, and so end {counted(len(proposal.held), 'holding')}?")


def _show(proposal: _Proposal) -> None:
    plan = proposal.plan
    held = set(proposal.held)

    def ends(paths: Sequence[str]) -> str:
        count = sum(path in held for path in paths)
        return f"would end {counted(count, 'holding')}" if count else "none is held"

    rows = [
        *_paths("withdraw", plan.withdraw, ends),
        *(("levels", "1", each.tree, "/".join(each.levels)) for each in proposal.levels()),
        *(("guard", "1", each.tree, guard_in_words(each)) for each in proposal.guards()),
        *(("floor", "1", each.scope, show_rate(each.floor)) for each in proposal.floors()),
        *_paths("add", [each.path for each in proposal.add], ""),
        *_paths(
            "leave",
            [each.path for each in plan.changed],
            "has other attributes; withdraw it first to change them",
        ),
        *_paths("skip", proposal.cordoned, "is cordoned; uncordon brings it back"),
        *_paths("skip", plan.blocked, "is a scope already; give it another name"),
        *_paths("leave", [each.scope for each in plan.unmentioned_floors], "floor not in the file"),
    ]
    columns = ("step", "count", "where", "")
    say_table(
        *columns,
        rows=rows,
        right=("count",),
        whole=("where",),
        nothing="the market has all of it already",
    )


def _paths(
    step: str, paths: Sequence[str], remark: str | Callable[[Sequence[str]], str]
) -> Iterable[tuple[str, ...]]:
    """A row for each fold of the paths, the first few; a remark may be of the row's own paths."""
    folds = fold(paths)
    said = remark if callable(remark) else lambda _: remark
    for each in folds[:FOLDS_SHOWN]:
        yield step, f"{each.count:,}", each.pattern, said(expand(each.pattern))
    if len(folds) > FOLDS_SHOWN:
        more = [path for each in folds[FOLDS_SHOWN:] for path in expand(each.pattern)]
        yield step, f"{len(more):,}", "... more", said(more)
