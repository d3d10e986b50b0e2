"""Random experiments: any model, slice, attack, training, defenses, batch and knowledge, several at once.

`python -m tests.experiments --count 500 --seed 7` runs them and prints one line each; those over budget, silent for
long, broken off or wrongly certified are named at the end, and make it fail. On a machine with nothing else to do.
"""

import argparse
import random
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from demo.attacker.attacks import ATTACKS
from demo.client.defenses import DEFENSES, parse
from demo.runs.engine import Experiment
from demo.runs.surveys import STRENGTHS
from demo.screen.messages import messages
from demo.victim.gradients import Defense
from demo.victim.models import MODELS, outline
from demo.victim.slices import SLICES, slices_of

LARGEST = "bert-large"  # a single step of it takes seconds
SENTENCES = (
    "the patient was diagnosed with diabetes last week.", "My PIN is 4711, don't tell anyone!", "Buffalo buffalo.",
    "We meet at the old harbour at noon, behind the second crane, and nobody else must know about it.", "yes",
    "Dear Anna, I still love you.", "ring me: +49 170 555 0199", "Łukasz paid 300 € to naïve 王 😀",
    "Kim thinks that Sandy left because the soup that the cook had made the day before was too salty for the guests.",
)  # fmt: skip
OVERRUN = 1.0  # seconds that a run may go on beyond its budget
SILENCE = 2.0  # seconds between two messages, once the client's step is taken


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment, as its watcher saw it."""

    experiment: Experiment
    seconds: float  # from the first frame's clock to the end
    silence: float  # the longest time between two messages
    headline: str
    certified: bool = False
    exact: bool = False
    refused: bool = False

    @property
    def faults(self) -> list[str]:
        found = {
            "over budget": self.seconds > self.experiment.seconds + OVERRUN,
            "silent": self.silence > SILENCE,
            "broken off": self.headline.startswith("BROKEN"),
            "wrongly certified": self.certified and not self.exact,
        }
        return [name for name, so in found.items() if so]


def drawn(chance: random.Random, models: Sequence[str], seconds: Sequence[float] = (2, 4)) -> Experiment:
    """Anything that the page can ask for."""
    model = chance.choice(models)
    slice = chance.choice(list(slices_of(outline(model))))
    count = chance.choice([1, 1, 1, 2, 3, 4, 8])
    defenses = [one_of(name, chance) for name in DEFENSES if chance.random() < chance.choice([0.0, 0.15, 0.5])]
    if count > 1:  # the mean over clients is of one sentence each
        defenses = [defense for defense in defenses if defense is not None and type(defense) is not DEFENSES["average"]]
    layers = sorted(chance.sample(range(MODELS[model].layers), chance.choice([1, 1, 1, 2])))
    return Experiment(
        "\n".join(chance.choice(SENTENCES) for _ in range(count)),
        tuple(chance.randrange(2) for _ in range(count)),
        model,
        slice=slice,
        layers=tuple(layers) if SLICES[slice].of_layer else (),
        attack=chance.choice(["best", *ATTACKS]),
        knows_length=chance.random() < 0.8,
        knows_label=chance.random() < 0.8,
        seconds=chance.choice(list(seconds)),
        seed=chance.randrange(100),
        dropout=chance.choice([0.0, 0.0, 0.1, 0.3, None]),
        frozen_embeddings=chance.random() < 0.2,
        defenses=tuple(defenses),
    )


def one_of(name: str, chance: random.Random) -> Defense:
    return parse(f"{name}={chance.choice(STRENGTHS[name])}" if name in STRENGTHS else name)


def watched(experiment: Experiment) -> Outcome:
    """The experiment as the page would see it."""
    started = last = None
    silence, headline, end = 0.0, "", {}
    try:
        for message in messages(experiment, gap=0.0):
            now = time.perf_counter()
            if "frame" not in message:
                continue
            started = started or now - message["frame"]["seconds"]
            silence = max(silence, now - (last or started))
            last, end = now, message.get("end", {})
        headline = end["headline"]
    except Exception as problem:
        if isinstance(problem, ValueError) and "demo" in raised_in(problem).parts:
            return Outcome(experiment, 0.0, silence, str(problem), refused=True)
        headline = f"BROKEN OFF: {type(problem).__name__}: {problem}"
    ended = time.perf_counter()
    seconds = ended - started if started else 0.0
    return Outcome(experiment, seconds, silence, headline, end.get("certified", False), end.get("exact", False))


def raised_in(problem: Exception) -> Path:
    """The file: ours says what was wrong with the experiment, a library's that something is wrong with us."""
    return Path(traceback.extract_tb(problem.__traceback__)[-1].filename)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one experiment, to see it alone")
    options = parser.parse_args()
    chance, models = random.Random(options.seed), [name for name in MODELS if name != LARGEST]
    wrong = []
    for n in range(options.count):
        experiment = replace(drawn(chance, models), device="cpu")
        if options.only not in (None, n):
            continue
        outcome = watched(experiment)
        said = " ".join(outcome.faults) or "ok"
        print(f"{n}\t{said}\t{outcome.seconds:.2f}/{experiment.seconds}\t{outcome.silence:.2f}\t{outcome.headline}")
        if outcome.faults:
            wrong.append((n, experiment, outcome))
    for n, experiment, outcome in wrong:
        print(f"\n{n}: {', '.join(outcome.faults)}: {outcome.headline}\n{experiment}")
    print(f"\n{options.count} experiments, {len(wrong)} with faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
