"""Measures how often words that an attack is sure of are right, on runs of all kinds, and fits `attacks.chances`.

Half of the runs are for the fit, the other half, of other sentences, tells whether it holds.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from tqdm import tqdm

from demo.attacker.attacks.chances import USUAL, Curve, fits, on_curve
from demo.bench.sentences import Example
from demo.client.client import Client
from demo.client.defenses import parse
from demo.runs.engine import Case, Experiment, Frame, run, set_up

# What people try: the default place and attack most, and everything else sometimes.
PLACES = (
    ("query", 2),
    ("query", 0),
    ("query", 4),
    ("key", 1),
    ("key", 3),
    ("value", 0),
    ("value", 3),
    ("layer", 1),
    ("attention-output", 1),
    ("attention-output", 4),
    ("ffn-in", 2),
    ("ffn-in", 5),
    ("ffn-out", 1),
    ("ffn-out", 4),
    ("layer", 4),
    ("all", 0),
)
ATTACKS = ("best",) * 6 + ("tag", "cosine", "dlg", "grab")
DEFENSES = ((),) * 6 + (("noise=1e-6",), ("noise=1e-4",), ("prune=0.9",), ("round=int8",))
DROPOUT = (0.0,) * 8 + (0.1, 0.1)
FRAMES = 20  # of each run are looked at, evenly spread: a long one must not outweigh the others
STEPS = 10  # bins of ten per cent
FEWEST = 100  # words that a curve can be fitted to


@dataclass(frozen=True, eq=False)
class Words:
    """The guessed words of some frames of one kind of score, and which of them were right."""

    kind: str
    fits: Tensor  # (words, 2)
    right: Tensor  # (words,) bool
    proven: Tensor  # (words,) bool: certified, so that no curve is asked


def diet(examples: Sequence[Example], count: int, seconds: float, seed: int = 0) -> list[Experiment]:
    """So many experiments, each on a sentence of its own."""
    chance = random.Random(seed)
    found = []
    for example in chance.sample(list(examples), count):
        slice, layer = chance.choice(PLACES)
        found.append(
            Experiment(
                example.sentence,
                (example.label,),
                slice=slice,
                layers=() if slice == "all" else (layer,),
                attack=chance.choice(ATTACKS),
                seconds=seconds,
                seed=chance.randrange(100),
                client=Client(dropout=chance.choice(DROPOUT)),
                defenses=tuple(map(parse, chance.choice(DEFENSES))),
            )
        )
    return found


def watched(experiments: Iterable[Experiment]) -> list[list[Words]]:
    """The words of each run."""
    runs = []
    for experiment in tqdm(experiments):
        case = set_up(experiment)
        try:
            frames = list(run(experiment, case))
        except ValueError:  # an attack that cannot work there
            continue
        every = max(1, len(frames) // FRAMES)
        runs.append([words_of(case, frame) for frame in frames[::-every]])
    return runs


def words_of(case: Case, frame: Frame) -> Words:
    shot, model = frame.snapshot, case.model
    truth, guess = case.secret.ids.cpu(), shot.ids
    inner = torch.ones(len(guess), dtype=torch.bool)
    inner[[0, -1]] = False
    inner &= guess != model.nothing  # nothing is guessed there
    common = min(len(truth), len(guess))
    right = torch.zeros(len(guess), dtype=torch.bool)
    right[:common] = truth[:common] == guess[:common]
    proven = torch.full((len(guess),), shot.certified)
    return Words(shot.meaning.name, fits(shot)[inner], right[inner], proven[inner])


def fitted(runs: Sequence[Sequence[Words]]) -> dict[str, Curve]:
    """The curve of each kind, from words that no certificate speaks for."""
    curves: dict[str, Curve] = {}
    for kind in sorted({words.kind for told in runs for words in told}):
        some = [words for told in runs for words in told if words.kind == kind]
        unproven = ~torch.cat([words.proven for words in some])
        fits, right = (torch.cat([getattr(words, name) for words in some])[unproven] for name in ("fits", "right"))
        if len(right) < FEWEST:
            continue
        share = (float(right.sum()) + 0.5) / (len(right) + 1)
        height, own, whole = math.log(share / (1 - share)), 0.0, 0.0
        if 0 < int(right.sum()) < len(right):
            model = LogisticRegression().fit(fits, right)
            height, (own, whole) = model.intercept_[0], model.coef_[0]
        curves[kind] = (round(float(height), 2), round(float(own), 2), round(float(whole), 2))
    return curves


def reliability(runs: Sequence[Sequence[Words]], curves: dict[str, Curve]) -> str:
    """Of the words shown within each tenth: how many, how sure on average, and how many were right, in per cent."""
    words = [one for told in runs for one in told]
    shown = torch.cat([shown_as(one, curves) for one in words])
    right = torch.cat([one.right for one in words]).double()
    lines = ["| shown as (%) | words | sure on average (%) | right (%) |", "|---|---|---|---|"]
    for step in range(STEPS):
        there = (shown * STEPS).long().clamp_max(STEPS - 1) == step
        if there.any():
            mean, share = 100 * float(shown[there].mean()), 100 * float(right[there].mean())
            tenth = f"{100 * step // STEPS} to {100 * (step + 1) // STEPS}"
            lines.append(f"| {tenth} | {int(there.sum())} | {mean:.0f} | {share:.0f} |")
    return "\n".join(lines)


def shown_as(words: Words, curves: dict[str, Curve]) -> Tensor:
    """(words,): the chances that the screen would give with these curves."""
    return on_curve(curves.get(words.kind, USUAL), words.fits).masked_fill(words.proven, 1.0)
