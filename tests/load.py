"""A class at once: `python -m tests.load --students 30 --minutes 2` drives a server as that many students would.

Half of the runs are a program's, with any attack, slice, defense and training; the others are a page's, on any tab.
Every run has to end in a result of the student's own sentence, in a place in line or in a clear refusal; a stopped run
has to free the device; memory must not grow; and a server that is killed and started again has to be as good as new.
"""

import argparse
import json
import random
import statistics
import sys
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gradio_client import Client
from gradio_client.exceptions import AppError

from demo.bench.server import Server, free_port, served
from demo.client.defenses import told_of
from demo.screen.reports import asked
from tests.experiments import drawn
from tests.visitor import Visitor

WORDS = ["cat", "dog", "tree", "house", "river", "stone", "bread", "salt", "king", "queen", "moon", "star", "road"]
DEFAULT = {"slice": "query", "layers": [3], "seconds": 3}
MODELS = ("minilm", "minilm", "minilm", "tinybert4", "transformer", "tinybert6")  # what students choose, by how often
BUDGETS = (1, 2)  # seconds of an attack
# What the page's other tabs are asked for: a few short attacks each, of which some end early.
SURVEYS = {
    "stage": {"seconds": 2},
    "compare": {"Seconds each": 1},
    "map": {"Seconds each": 1, "attack-name": "span"},
    "sweep": {"Seconds each": 1, "strengths": "1e-6, 1e-3"},
}
ENDLESS = {"sentence": "a cat", "slice": "layer", "layers": [4], "attack": "dlg", "seconds": 60}
BROKEN = ("broke off", "went wrong")  # how the server says that something is wrong with itself
PROGRAMS = 0.5  # of all runs are a program's
PATIENCE = (0, 0, 0, 0, 0, 0, 5, 100)  # seconds for which a run that will be closed is waited for; 0: to its end
WARM, MANY = 60, 500  # runs after which memory is looked at
GROWTH, FREED = 0.05, 1.0  # how much it may have grown; seconds until a stopped run is gone


@dataclass
class Tally:
    """What became of the runs, and what should not have happened."""

    ends: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)  # seconds
    longest_line: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, end: str, waited: float) -> None:
        with self.lock:
            self.ends[end] += 1
            self.waited.append(waited)


def resident(server: Server) -> float:
    """MB of memory at rest: back on the default model, when no run is under way."""
    for _ in range(3):
        quick(Client(server.address, verbose=False))
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def ask_for_health(address: str, tally: Tally, left: threading.Event) -> None:
    """How long the server takes to answer while it computes."""
    while not left.is_set():
        started = time.monotonic()
        urllib.request.urlopen(address + "health", timeout=60).read()
        tally.answers.append(time.monotonic() - started)
        time.sleep(0.5)


def drive(address: str, students: int, seconds: float, runs: int = 0, tally: Tally | None = None) -> Tally:
    """So many students for so long, and on until there were so many runs."""
    tally, until = tally or Tally(), time.monotonic() + seconds

    def over() -> bool:
        return time.monotonic() > until and tally.ends.total() >= runs

    threads = [threading.Thread(target=student, args=(address, n, tally, over), daemon=True) for n in range(students)]
    left = threading.Event()  # the class has
    health = threading.Thread(target=ask_for_health, args=(address, tally, left), daemon=True)
    for thread in (*threads, health):
        thread.start()
    for thread in threads:
        thread.join()
    left.set()
    health.join()
    return tally


def student(address: str, number: int, tally: Tally, over) -> None:
    """One of the class: a run after the other, each of another sentence; every third by a program, others on a page."""
    visitor = Visitor(address)
    try:
        chance = random.Random(f"{number} {tally.ends.total()}")
        client = Client(address, verbose=False)
        while not over():
            words = [*chance.sample(WORDS, 4), WORDS[number % len(WORDS)]]
            closes = chance.choice(PATIENCE)
            started = time.monotonic()
            if chance.random() < PROGRAMS:
                end = attempt(client, words, anything(chance), closes, tally)
            else:
                end = look(visitor, words, chance, bool(closes), tally)
            if not end.startswith(("result", "closed", "refused")):
                tally.wrong.append(end)
            tally.add(end, time.monotonic() - started)
            if closes:  # a page that was closed is opened anew
                visitor.close()
                visitor = Visitor(address)
            time.sleep(chance.uniform(0, 2))
    except Exception as problem:
        tally.wrong.append(f"student {number}: {type(problem).__name__}: {problem}")
    finally:
        visitor.close()


def anything(chance: random.Random) -> dict:
    """Any attack, slice, defense and training, as the API takes them; every fourth is the default."""
    if chance.random() < 0.25:
        return DEFAULT
    experiment = drawn(chance, MODELS, BUDGETS)
    told = asked(experiment)
    del told["sentence"]
    told["labels"] = told["labels"][:1]
    return {**told, "seconds": experiment.seconds, "defenses": [told_of(one) for one in experiment.defenses]}


def attempt(client: Client, words: list[str], choice: dict, closes: float, tally: Tally) -> str:
    """A program's run."""
    job = client.submit(api_name="/attack", sentence=" ".join(words), **choice)
    try:
        if closes:
            end = close(job, closes, tally)
        else:
            job.result(timeout=300)
            end = "result" if job.outputs() and "end" in job.outputs()[-1] else "no result"
    except AppError as problem:
        end = refusal(str(problem))
    except Exception as problem:
        end = f"{type(problem).__name__}: {problem}"
    told = job.outputs()
    if len({message["run"] for message in told}) > 1:
        tally.wrong.append("frames of two runs in one")
    if any(message["start"]["truth"][: len(words)] != words for message in told if "start" in message):
        tally.wrong.append("another student's frames")
    return end


def look(visitor: Visitor, words: list[str], chance: random.Random, closes: bool, tally: Tally) -> str:
    """A run of one of the page's tabs."""
    tab = chance.choice(list(SURVEYS))
    ticket = visitor.start(tab, sentence=" ".join(words), **SURVEYS[tab])
    end = f"no result in {tab}"
    for n, message in enumerate(visitor.hear()):
        if message["ticket"] != ticket or not is_of(message, words):
            tally.wrong.append(f"another student's frames in {tab}")
        if "error" in message:
            end = refusal(message["error"])
        elif "end" in message or "said" in message or message.get("over"):
            end = "result"
        if closes and n == 3:
            return "closed while running"
    return end


def is_of(message: dict, words: list[str]) -> bool:
    """Whether all that a message tells of a sentence is of this one."""
    starts = [*message.get("starts", {}).values(), *([message["start"]] if "start" in message else [])]
    asked = message.get("asked", {})
    said = asked.get("truth") or asked.get("sentence", " ".join(words)).split()
    return said == words and all(start["truth"] == words for start in starts)


def refusal(problem: str) -> str:
    """A clear reason why not, as a visitor would read it; or that something broke."""
    kind = "crowded" if "full" in problem or "within a minute" in problem else "cannot work"
    return problem if any(text in problem for text in BROKEN) else f"refused: {kind}"


def close(job, patience: float, tally: Tally) -> str:
    """Leaves as soon as something is to be seen; or, without the patience for it, while still in line."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        place = job.status().rank
        tally.longest_line = max(tally.longest_line, place or 0)
        if job.outputs() or job.done():
            break
        time.sleep(0.05)
    job.cancel()
    return "closed while running" if job.outputs() else "closed while in line"


def quick(client: Client) -> float:
    """Seconds of a short run of the default model."""
    started = time.monotonic()
    client.submit(api_name="/attack", sentence="a cat", slice="embeddings", seconds=1).result(timeout=100)
    return time.monotonic() - started


def freed(address: str, rounds: int = 5) -> float:
    """Seconds for which a stopped run is still in the way of the next, beyond what the next one takes in any case."""
    first, second = Client(address, verbose=False), Client(address, verbose=False)
    alone, after = [], []
    for _ in range(rounds):
        alone.append(quick(second))
        job = first.submit(api_name="/attack", **ENDLESS)
        next(iter(job))
        job.cancel()
        after.append(quick(second))
    return max(0.0, statistics.median(after) - statistics.median(alone))


def killed_and_back(environment: dict[str, str]) -> list[str]:
    """A server killed in the middle of a run, and another in its place: what does not work then."""
    port, wrong = free_port(), []
    with served(port=port, environment=environment) as server:
        client = Client(server.address, verbose=False)
        next(iter(client.submit(api_name="/attack", **ENDLESS)))
        server.process.kill()
        server.process.wait()
    with served(port=port, environment=environment) as server:
        for name in ("default", "map", "sweep"):
            json.loads(got(server, f"static/assets/recordings/{name}.json"))
        if "gradio" not in got(server, "?sentence=a+cat&slice=query&layers=0"):
            wrong.append("a link leads nowhere")
        job = Client(server.address, verbose=False).submit(api_name="/attack", sentence="a cat", slice="all")
        job.result(timeout=100)
        if not job.outputs()[-1]["end"]["certified"]:
            wrong.append("no attack after the restart")
    return wrong


def got(server: Server, path: str) -> str:
    return urllib.request.urlopen(server.address + path, timeout=60).read().decode()


def report(tally: Tally, free: float, memory: list[float], back: list[str] | None) -> int:
    """The figures as a table; how many promises were broken."""
    growth = memory[1] / memory[0] - 1 if memory else None
    broken = {
        "every run ends in a result, a place in line or a refusal, with its own frames": not tally.wrong,
        f"a stopped run is gone within {FREED:g} s": free <= FREED,
        f"memory grows by at most {GROWTH:.0%} from run {WARM} to the last": growth is None or growth <= GROWTH,
        "a killed server comes back": not back,
    }
    waits = sorted(tally.waited)
    rows = [(f"runs: {end}", count) for end, count in sorted(tally.ends.items())] + [
        ("runs in all", tally.ends.total()),
        ("median, slowest run with its wait (s)", f"{statistics.median(waits):.1f}, {waits[-1]:.1f}"),
        ("longest line seen", tally.longest_line),
        ("median, slowest answer of /health (s)", f"{statistics.median(tally.answers):.2f}, {max(tally.answers):.2f}"),
        ("a stopped run is in the way for (s)", f"{free:.2f}"),
        (f"memory after {WARM} runs, and at the end (MB)", ", ".join(f"{size:.0f}" for size in memory)),
        ("memory growth", "not measured" if growth is None else f"{growth:+.1%}"),
        *((f"promise: {promise}", "kept" if kept else "BROKEN") for promise, kept in broken.items()),
    ]
    for name, value in rows:
        print(f"| {name} | {value} |")
    for problem, count in Counter([*tally.wrong, *(back or [])]).items():
        print(f"{count} × {problem}", file=sys.stderr)
    return sum(not kept for kept in broken.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--runs", type=int, default=MANY, help="goes on until there were so many")
    parser.add_argument("--url", help="a server that is running; default: one of its own, which is also killed")
    options = parser.parse_args()
    if options.url:
        tally = drive(options.url, options.students, 60 * options.minutes, options.runs)
        return report(tally, freed(options.url), [], None)
    # All students come from this one address, faster than people do.
    environment = {"LEAKSCOPE_PER_VISITOR": "60", "LEAKSCOPE_PER_ADDRESS": "0"}
    with served(environment=environment) as server:
        tally = drive(server.address, options.students, 0, WARM)
        memory = [resident(server)]
        drive(server.address, options.students, 60 * options.minutes, options.runs, tally)
        memory.append(resident(server))
        free = freed(server.address)
    return report(tally, free, memory, killed_and_back(environment))


if __name__ == "__main__":
    sys.exit(main())
