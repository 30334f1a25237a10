"""What one tenant's attack does to another: `python benchmarks/attacks.py --help`.

Each attack runs for some seconds against a service of its own on this machine's loopback, and
stops by itself (see `attacking`). The table shows what another tenant waited meanwhile, in ms, and
how long the slowest new connection took, the memory of the service before, at most and after, and
what was written to the journal. An attack is held if that tenant's p99 stays below 50 ms, a new
connection is let in within a second each time, memory stays within 200 MB of where it was, and what
makes no sense out of the journal. While the disk stalls, only questions can be answered, and only
they count. Where something acts at one instant, changes have to wait for it: questions count, in
the two seconds around it, and the slowest change, which is to be through in half a second.

An attack that did not take place is not held, it is VOID: each must have done a minimum, and the
other tenant must have traded meanwhile. Latencies include the machine's own moods: nobody attacks
in the first row, whose p99 stands beside each attack.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from attacking import stage
from attacking.entry import CERTIFICATE, KEY, STALL
from attacking.stage import AttackPlan
from attacking.victim import REQUESTS_PER_S, TREE, VictimPlan, Waited

from faults.process import Service
from laissez.exchange.pipeline import Settings
from laissez.model import Answer, PlaceOrder
from raw_websocket import RawSocket
from serving import make_tokens

HERE = Path(__file__).parent
P99_GOAL_MS = 50.0
DOOR_GOAL_MS = 1_000.0
TRADED_LEAST = 30
DOORS_LEAST = 2
RSS_GOAL_MB = 200
RSS_STOP_MB = 4_000
# The victim's own commands, each in a group of its own, are up to 15 MB.
JOURNAL_GOAL_MB = 30
LORIS_S = 12.0
MEMORY_DISK = Path("/dev/shm")
BEFORE_S, AFTER_S = 2.0, 2.0
STALL_S = 8.0
STALLED_LEAST_S = 1.0
# What takes a tenth of a second is not to be seen among the requests of half a minute: so only
# those around it count, and there are many of them.
ACTS_FROM_S, ACTS_UNTIL_S = -0.2, 1.8
LOOKS_PER_S = 300
CHANGE_GOAL_MS = 500.0
LOOK_EVERY_S = 0.02
MIB = 1 << 20


class Attack(msgspec.Struct, frozen=True):
    """`least` is what its program must have done to count, in the program's own unit (megabytes let
    in, bills, keys, connections); `least_before` is that of what was prepared."""

    name: str
    program: str | None
    says: str
    least: float = 0.0
    prepare: Callable[[str, dict[str, str]], stage.Done] = stage.nothing
    least_before: float = 0.0
    settings: Settings = Settings()
    stalls_the_disk: bool = False
    uses_keys: bool = False
    speaks_tls: bool = False
    makes_no_sense: bool = False
    seconds_least: float = 0.0


ATTACKS = (
    Attack("nobody", None, "nobody attacks"),
    Attack("pongs", "pongs", "pings without reading the pongs, 4 sockets", 1.0),
    Attack("replays", "replays", "one frame of 1,000 subscriptions", 0.03, stage.a_long_feed, 980),
    Attack(
        "explanations",
        "explanations",
        "explained bills, 512 holdings, up to 49,000 price steps in 30 s",
        10,
        stage.many_price_steps,
        1_000,
    ),
    Attack(
        "held bills",
        "bills",
        "bills under a hold, 512 holdings, up to 49,000 price steps in 30 s",
        10,
        stage.many_price_steps_under_a_hold,
        1_000,
    ),
    Attack(
        "restless",
        "restless",
        "900 price changes a second at all depths, 512 holdings, a bill each second",
        3_000,
        stage.all_of_a_tree,
        1_000,
    ),
    Attack("requests", "requests_beyond", "frames of 1,000 requests beyond the allowance", 1.0),
    Attack("large frames", "many_in_a_frame", "frames of 25,000 requests", 1.0),
    Attack("unreadable", "unreadable", "unreadable frames of 1 MiB", 1.0),
    Attack("tiny frames", "tiny_frames", "a flood of empty frames that can't be read", 0.01),
    Attack("pings", "pings", "a flood of pings, pongs read", 0.1),
    Attack("continuations", "continuations", "empty continuation frames", 0.1),
    Attack(
        "long numbers",
        "long_numbers",
        "orders with 4,291-digit prices, 1,000 a second",
        0.2,
        makes_no_sense=True,
    ),
    Attack(
        "long paths",
        "long_paths",
        "orders at long emoji paths, 1,000 a second",
        0.2,
        makes_no_sense=True,
    ),
    Attack(
        "unread GETs",
        "unread_gets",
        "508 unread lists of up to 100,000 resting orders",
        50,
        stage.many_resting_orders,
        1_000,
    ),
    Attack(
        "slow loris",
        "loris",
        "no token: 1,050 slow or unfinished requests",
        500,
        seconds_least=LORIS_S,
    ),
    Attack(
        "silent TLS",
        "silent_tls",
        "no token: 1,050 silent connections to TLS",
        500,
        speaks_tls=True,
        seconds_least=LORIS_S,
    ),
    Attack(
        "keys",
        "keys",
        "four times as many keyed commands as are kept",
        stage.KEYS_KEPT + 1,
        settings=Settings(keys_kept=stage.KEYS_KEPT),
        uses_keys=True,
    ),
    Attack("no token", "no_token", "no token or a wrong one, 400 connections that come back", 50),
    Attack("strange WS", "strange_handshakes", "WebSocket handshakes with a wrong token", 50),
    Attack("handshakes", "handshakes", "WebSocket handshakes, and hang up", 50),
    Attack("connects", "connects", "no token: connect, and hang up", 500),
    Attack("silence", "silence", "no token: 2,500 connections that say nothing", 1_000),
    Attack("half heads", "half_heads", "no token: 1,000 heads of 16 KB, never finished", 1_000),
    Attack(
        "half TLS",
        "half_handshakes",
        "no token: hello in TLS and nothing more, 400 connections",
        400,
        speaks_tls=True,
    ),
    Attack("chunks", "smallest_chunks", "no token: bodies of 40,000 chunks of one byte", 50),
    Attack("own chunks", "own_smallest_chunks", "bodies of 40,000 chunks of one byte", 2),
    Attack("404", "not_there", "requests for what is not there, 90 connections", 50),
    Attack("405", "not_so", "methods that are not taken, 90 connections", 50),
    Attack("413", "too_large", "bodies of 70 KB, 90 connections", 5),
    Attack(
        "expiries",
        "listeners",
        "20,000 orders that expire at one instant, heard by 90",
        50,
        stage.many_expiries,
        stage.EXPIRING_ORDERS,
        seconds_least=stage.EXPIRE_AFTER_S,
    ),
    Attack("stalling disk", None, "a sync that takes 8 s; questions only", stalls_the_disk=True),
)


class Noticed(msgspec.Struct, frozen=True):
    """What another tenant and the operator noticed."""

    attack: str
    says: str
    p50_ms: float
    p99_ms: float
    max_ms: float
    requests: int
    failed: int
    doors: int
    door_ms: float
    doors_failed: int
    failures: dict[str, int]
    rss_before_mb: int
    rss_most_mb: int
    rss_after_mb: int
    journal_mb: float
    notes: list[str]
    broken: list[str]
    void: list[str]
    nobody_p99_ms: float | None = None

    @property
    def verdict(self) -> str:
        if self.void:
            return "VOID"
        return "MISSED" if self.broken else "held"


class Took(msgspec.Struct, frozen=True):
    """What was prepared and what the attack did."""

    before: stage.Done = stage.Done()
    attack: stage.Done = stage.Done()


class Memory:
    """Looks at a process while it is under attack."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.most_mb = 0

    def now_mb(self) -> int:
        try:
            pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        mb = pages * os.sysconf("SC_PAGE_SIZE") // MIB
        self.most_mb = max(self.most_mb, mb)
        return mb

    def watch(self, seconds: float, attacker: subprocess.Popen[bytes] | None = None) -> None:
        """Look often; an attack that takes too much of the machine is ended."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self.now_mb() > RSS_STOP_MB and attacker is not None:
                attacker.kill()
            time.sleep(LOOK_EVERY_S)


def run(attack: Attack, seconds: float) -> Noticed:
    # A disk that was fast until it stalls is the worse one: a service may have come to rely on it.
    fast = MEMORY_DISK if attack.stalls_the_disk and MEMORY_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="laissez-attack-", dir=fast) as name:
        folder = Path(name) / "journal"
        folder.mkdir()
        tokens = make_tokens(folder, *stage.NAMES)
        prepared = Service(folder, stage.generous(attack.settings))
        with contextlib.closing(prepared):
            prepared.start("attacking.entry")
            prepared.wait_until_ready()
            stage.furnish(prepared.url, tokens)
            done_before = attack.prepare(prepared.url, tokens)
            with RawSocket(prepared.url, tokens["victim"]) as mine:
                mine.ask(PlaceOrder(TREE, 1, 1, "mine"), key="mine")
            prepared.stop()
        if attack.speaks_tls and not make_certificate(folder):
            raise RuntimeError("there is no openssl to make a certificate with")
        service = Service(folder, attack.settings)
        with contextlib.closing(service):
            service.start("attacking.entry")
            service.wait_until_ready()
            took_s = max(seconds, attack.seconds_least)
            return _watch(attack, service, tokens, folder, took_s, done_before)


def make_certificate(folder: Path) -> bool:
    """A certificate for 127.0.0.1, signed by itself, where the service looks for one."""
    if shutil.which("openssl") is None:
        return False
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += " -subj /CN=exchange -addext subjectAltName=IP:127.0.0.1"
    paths = ["-keyout", str(folder / KEY), "-out", str(folder / CERTIFICATE)]
    subprocess.run([*command.split(), *paths], check=True, capture_output=True, timeout=30)
    return True


def _watch(
    attack: Attack,
    service: Service,
    tokens: dict[str, str],
    folder: Path,
    seconds: float,
    done_before: stage.Done,
) -> Noticed:
    url, certificate = service.url, None
    if attack.speaks_tls:
        url, certificate = url.replace("http", "https", 1), str(folder / CERTIFICATE)
    report = folder.with_name("victim.json")
    long = BEFORE_S + seconds + AFTER_S
    often = REQUESTS_PER_S if done_before.acts_at is None else LOOKS_PER_S
    plan = VictimPlan(url, tokens["victim"], long, str(report), certificate, often)
    with contextlib.ExitStack() as ends:
        return _watch_all(attack, service, tokens, folder, plan, seconds, done_before, ends)


def _watch_all(
    attack: Attack,
    service: Service,
    tokens: dict[str, str],
    folder: Path,
    plan: VictimPlan,
    seconds: float,
    done_before: stage.Done,
    ends: contextlib.ExitStack,
) -> Noticed:
    victim = ends.enter_context(_running("attacking.victim", plan))
    memory = Memory(service.pid)
    time.sleep(BEFORE_S)
    before, journal_before = memory.now_mb(), _size(folder)
    begun = time.monotonic()
    notes, done = [], stage.Done()
    attacker = None
    if attack.stalls_the_disk:
        (folder / STALL).write_text(str(min(STALL_S, seconds)))
    if attack.program is not None:
        attack_plan = AttackPlan(attack.program, plan.url, tokens["attacker"], seconds)
        attacker = ends.enter_context(_running("attacking.programs", attack_plan))
    memory.watch(seconds, attacker)
    ended = time.monotonic()
    if attacker is not None:
        done = _last_words(attacker)
    notes += [each.note for each in (done_before, done) if each.note]
    memory.watch(AFTER_S)
    after = memory.now_mb()
    victim.wait(60)
    seen = msgspec.json.decode(Path(plan.report).read_bytes(), type=list[Waited])
    journal_mb = (_size(folder) - journal_before) / MIB
    if attack.uses_keys:
        notes.append(_retry(service.url, tokens["victim"]))
    meanwhile = _meanwhile(seen, begun, ended, done_before.acts_at)
    took = Took(done_before, done)
    return _noticed(attack, meanwhile, took, (before, memory.most_mb, after), journal_mb, notes)


def _meanwhile(
    seen: list[Waited], begun: float, ended: float, acts_at: float | None
) -> list[Waited]:
    """What the victim asked while the attack lasted: around its instant, if it has one."""
    if acts_at is not None:
        begun, ended = max(begun, acts_at + ACTS_FROM_S), min(ended, acts_at + ACTS_UNTIL_S)
    return [each for each in seen if begun <= each.due_at < ended]


def _retry(url: str, token: str) -> str:
    """The victim's own key, from before the attack: did its retry act once more?"""
    with RawSocket(url, token) as mine:
        told = mine.ask(PlaceOrder(TREE, 1, 1, "mine"), key="mine")
    repeated = isinstance(told, Answer) and told.repeated
    return "the victim's retry was recognised" if repeated else TWICE


TWICE = "the victim's retry acted twice"
FAILED = "the attack itself failed; what it said is above"


@contextlib.contextmanager
def _running(module: str, plan: VictimPlan | AttackPlan) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone when the block ends, whatever happens.

    An attacker is less urgent than the service that shares the machine with it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=_be_nice if module == "attacking.programs" else None,  # noqa: PLW1509
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(plan))
        process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _be_nice() -> None:
    os.nice(5)


def _last_words(attacker: subprocess.Popen[bytes]) -> stage.Done:
    assert attacker.stdout is not None
    try:
        attacker.wait(15)
    except subprocess.TimeoutExpired:
        attacker.kill()
        attacker.wait()
    words = attacker.stdout.read()
    if attacker.returncode < 0:
        return stage.Done("ended because the service had taken too much memory, or it did not stop")
    return msgspec.json.decode(words, type=stage.Done) if words else stage.Done(FAILED)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _noticed(
    attack: Attack,
    seen: list[Waited],
    took: Took,
    rss_mb: tuple[int, int, int],
    journal_mb: float,
    notes: list[str],
) -> Noticed:
    has_an_instant = took.before.acts_at is not None
    only_questions = attack.stalls_the_disk or has_an_instant
    kinds = ("question",) if only_questions else ("question", "change")
    traded = [each for each in seen if each.kind in kinds]
    changes_ms = [(each.seconds or 0) * 1_000 for each in seen if each.kind == "change"]
    doors = [each for each in seen if each.kind == "door"]
    waited_ms = sorted((each.seconds or 0) * 1_000 for each in traded)
    p50, p99, most = (_percentile(waited_ms, share) for share in (0.5, 0.99, 1.0))
    failed = sum(each.failed is not None for each in traded)
    doors_failed = sum(each.failed is not None for each in doors)
    door_ms = _percentile(sorted((each.seconds or 0) * 1_000 for each in doors), 1.0)
    before, rss_most, after = rss_mb
    broken = []
    if p99 >= P99_GOAL_MS:
        broken.append("p99")
    if rss_most - before > RSS_GOAL_MB:
        broken.append("memory")
    if failed:
        broken.append("requests")
    if has_an_instant:
        slowest_ms = max(changes_ms, default=0.0)
        notes = [*notes, f"around its instant the slowest change took {slowest_ms:,.0f} ms"]
        if slowest_ms >= CHANGE_GOAL_MS or any(each.failed for each in seen):
            broken.append("changes")
    if doors_failed or door_ms >= DOOR_GOAL_MS:
        broken.append("doors")
    if attack.makes_no_sense and journal_mb > JOURNAL_GOAL_MB:
        broken.append("journal")
    if FAILED in notes:
        broken.append("the attack itself")
    if TWICE in notes:
        broken.append("keys")
    return Noticed(
        attack.name,
        attack.says,
        p50,
        p99,
        most,
        len(traded),
        failed,
        len(doors),
        door_ms,
        doors_failed,
        dict(Counter(each.failed for each in traded + doors if each.failed is not None)),
        before,
        rss_most,
        after,
        round(journal_mb, 1),
        notes,
        broken,
        list(_missing(attack, seen, took, len(traded), len(doors))),
    )


def _missing(
    attack: Attack, seen: list[Waited], took: Took, traded: int, doors: int
) -> Iterator[str]:
    """What should have happened and did not: then nothing was held."""
    if took.before.amount < attack.least_before:
        yield f"prepared {took.before.amount:,g}, not {attack.least_before:,g}"
    if took.attack.amount < attack.least:
        yield f"the attack did {took.attack.amount:,g}, not {attack.least:,g}"
    changes_s = [each.seconds or 0 for each in seen if each.kind == "change"]
    if attack.stalls_the_disk and max(changes_s, default=0) < STALLED_LEAST_S:
        yield "the disk did not stall"
    if traded < TRADED_LEAST:
        yield f"the other tenant asked {traded} times, not {TRADED_LEAST}"
    if doors < DOORS_LEAST:
        yield f"{doors} new connections were tried, not {DOORS_LEAST}"


def _percentile(sorted_values: list[float], share: float) -> float:
    if not sorted_values:
        return 0.0
    return round(sorted_values[min(int(len(sorted_values) * share), len(sorted_values) - 1)], 2)


# What is shown ------------------------------------------------------------------------------------

HEAD = (
    f"{'attack':<14}{'p50 ms':>8}{'p99 ms':>9}{'max ms':>8}{'door ms':>8}{'RSS':>6}{'most':>6}"
    f"{'after':>6}{'journal':>8} goal"
)


def row(noticed: Noticed) -> str:
    return (
        f"{noticed.attack:<14}{noticed.p50_ms:>8,.1f}{noticed.p99_ms:>9,.1f}"
        f"{noticed.max_ms:>8,.0f}{noticed.door_ms:>8,.0f}{noticed.rss_before_mb:>6,}"
        f"{noticed.rss_most_mb:>6,}{noticed.rss_after_mb:>6,}{noticed.journal_mb:>8,.1f}"
        f" {noticed.verdict}"
    )


def details(noticed: Noticed) -> Iterator[str]:
    yield f"  {noticed.says}"
    yield from (f"  {note}" for note in noticed.notes)
    if noticed.nobody_p99_ms is not None:
        yield f"  p99 {noticed.p99_ms:,.1f} ms; when nobody attacks {noticed.nobody_p99_ms:,.1f} ms"
    if noticed.void:
        yield f"  did not take place: {'; '.join(noticed.void)}"
    if noticed.broken:
        yield f"  missed: {', '.join(noticed.broken)}"
    if noticed.failed or noticed.doors_failed:
        yield (
            f"  {noticed.failed} of {noticed.requests} requests came to nothing, "
            f"{noticed.doors_failed} of {noticed.doors} new connections"
        )
        told = ", ".join(f"{why} {count}" for why, count in noticed.failures.items())
        yield f"  why: {told}"[:80]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attack a service, and see who notices.")
    names = ", ".join(attack.name for attack in ATTACKS)
    parser.add_argument("--only", action="append", help=f"this one alone, may be repeated: {names}")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each lasts (8)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    paths = [str(HERE), str(HERE.parent / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    unknown = set(asked.only or ()) - {attack.name for attack in ATTACKS}
    if unknown:
        print(f"there is no attack {', '.join(sorted(unknown))}; see --help", file=sys.stderr)
        return 2
    found: list[Noticed] = []
    if not asked.json:
        print(HEAD)
    for attack in ATTACKS:
        # Nobody comes first, always: what the others do to p99 is told beside it.
        if asked.only and attack.name not in asked.only and found:
            continue
        noticed = run(attack, asked.seconds)
        if found:
            noticed = msgspec.structs.replace(noticed, nobody_p99_ms=found[0].p99_ms)
        found.append(noticed)
        if not asked.json:
            print("\n".join([row(noticed), *details(noticed)]), flush=True)
    held = sum(each.verdict == "held" for each in found)
    if asked.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        print(
            f"{held} of {len(found)} held: p99 < {P99_GOAL_MS:.0f} ms, memory within "
            f"{RSS_GOAL_MB} MB, all let in within {DOOR_GOAL_MS:,.0f} ms"
        )
    return 0 if held == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
