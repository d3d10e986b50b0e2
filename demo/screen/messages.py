"""What the screen is told: frames as small JSON-ready messages, for the page, the API and the recordings alike.

A run is a list of messages that share an id. While a model is loaded and the client takes its step they carry
`progress` alone. From then on all carry a `frame`, the first few `start` (what is attacked, the true tokens and their
points), the last one `end` (the verdict). The stage (assets/stage.js) may miss some, so none depends on another, and
`start` is said more than once. Of a tree of prefixes (demo/screen/growth.py) each frame tells what is new.

A batch is told flat, without its sentences' ends: token i of every frame stands beside token i of the truth. `breaks`
says where the second and later sentences begin, and `whose` whose each of them is. Where clients are averaged, all of
their sentences are told of, as any of them is a leak. A guessed sentence that is too short is filled up with blanks;
the words of one that is too long, beyond the true one's end, come after all sentences.
"""

import base64
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np
import torch

from demo.attacker.attacks.chances import chances
from demo.attacker.attacks.objectives import NATS, OBJECTIVES, Objective
from demo.client.client import Client
from demo.client.defenses import told_of
from demo.runs.engine import Case, Experiment, Frame, run, set_up
from demo.screen.growth import Growing
from demo.screen.projection import Projection
from demo.screen.verdicts import verdict
from demo.turns import Pause, in_turns
from demo.victim.model import Model
from demo.victim.slices import SLICES, named

Message = dict[str, Any]

GAP = 0.04  # seconds between two frames: more than a screen can draw, and a browser can take
STARTS = 3  # messages that carry `start`
BLANK = "▢"  # a place of which nothing is guessed yet
SEPARATOR = " · "  # between the parts of a title
DIGITS = 1000  # points travel as whole thousandths


def messages(
    experiment: Experiment, case: Case | None = None, gap: float = GAP, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Message]:
    """The run as the screen sees it, at most a frame per `gap` seconds; closing the generator stops the attack."""
    run_id = secrets.token_hex(4)
    for ready in in_turns(lambda: map(set_up, [experiment])) if case is None else ():
        if isinstance(ready, Pause):
            yield {"run": run_id, "progress": ready.doing}
        else:
            case = ready
    assert case is not None
    show = Show(experiment, case)
    start, shown, told = show.start(), 0, -torch.inf
    for frame in run(experiment, case, clock):
        seconds = frame.snapshot.seconds
        show.growing.add(frame.snapshot.growth)
        # A span check's frames are all told, however fast: one for each place is the picture.
        if seconds - told >= gap or frame.snapshot.candidates is not None:
            yield {"run": run_id, "frame": show.frame(shown, frame)} | ({"start": start} if shown < STARTS else {})
            shown, told = shown + 1, seconds
    last = show.frame(shown, frame) | show.growing.whole()
    yield {"run": run_id, "start": start, "frame": last, "end": show.end(frame)}


class Show:
    """Turns one experiment's frames into messages."""

    def __init__(self, experiment: Experiment, case: Case) -> None:
        self.experiment, self.case = experiment, case
        self.sentences = [case.model.inner(ids).cpu() for ids in case.everyone.sentences]
        self.truth = torch.cat(self.sentences)
        self.projection = Projection.fit(case.model, self.truth)
        self.nothing = case.model.words[[case.model.nothing]].cpu()
        self.growing = Growing(lambda ids: case.model.tokens(torch.tensor(ids)))

    def start(self) -> Message:
        model, background = self.case.model, self.projection.background
        points = self._points(model.words[background.to(model.device)].cpu())
        return {
            "title": title(self.experiment, model),
            "attack": self.experiment.attack,
            "device": device_name(model),
            "exposed": " · ".join([exposed(self.case.parameters, self.case.parameter_share), *self._cost()]),
            "budget": self.experiment.seconds,
            "recorded": False,
            "truth": self._tokens(self.truth),
            "breaks": list(accumulate(len(ids) for ids in self.sentences))[:-1],
            "whose": self.case.whose,
            "unreadable": model.tokenizer.unk_token or "",
            "truth_points": self._points(model.words[self.truth.to(model.device)].cpu()),
            "background": [[word, *point] for word, point in zip(model.tokens(background), points, strict=True)],
            "variance": [round(100 * share) for share in self.projection.variance],
            "objectives": [self._told_of(objective) for objective in OBJECTIVES],
        }

    def frame(self, n: int, frame: Frame) -> Message:
        shot = frame.snapshot
        guess = self.case.leak.sentences(shot.ids, shot.lengths)
        words, sure = [*self._tokens(shot.ids), BLANK], [*chances(shot).tolist(), 0]
        model = self.case.model
        places = laid_out([len(ids) for ids in self.sentences], [len(ids) for ids in guess], model.inside)
        places = [place for n, place in enumerate(places) if n < len(self.truth) or words[place] != BLANK]
        # Joined by blanks: gradio 6.31 sends differences, and gets those of shrinking lists within lists wrong.
        others = [*(" ".join(self._tokens(others)) for others in shot.runners_up), ""]
        marked = "".join(self._marked(truth, ids) for truth, ids in zip(self.sentences, guess, strict=True))
        points = self._points(torch.cat([shot.embeddings, self.nothing]))
        told: Message = {
            "n": n,
            "step": shot.step,
            "seconds": round(shot.seconds, 2),
            "left": round(max(0.0, self.experiment.seconds - shot.seconds)),
            "tokens": [words[place] for place in places],
            "marks": "".join(f"{marked}x"[place] for place in places),
            "sure": [0 if words[place] == BLANK else round(100 * sure[place]) for place in places],
            "others": [others[place] for place in places],
            "points": [points[place] for place in places],
            "objective": value_of(shot.meaning, shot.objective),
            "meaning": shot.meaning.name,
            "recover": round(100 * frame.scores.recover_rate),
            "rouge1": round(100 * frame.scores.rouge1),
            "rougeL": round(100 * frame.scores.rougeL),
            "stage": shot.stage,
        }
        if shot.candidates is not None:
            told["candidates"] = {
                "place": shot.candidates.place + 1 - len(model.ends[0]),  # 1: the first word
                "words": self._tokens(shot.candidates.ids),
                "distances": [float(f"{distance:.2g}") for distance in shot.candidates.distances.tolist()],
            }
        if shot.kept is not None:
            told["masks"] = ["" if words[place] == BLANK else packed(shot.kept[place]) for place in places]
        if frame.masks_right is not None:
            right = [*frame.masks_right.tolist(), 0]
            told["masks_right"] = [math.floor(100 * right[place]) for place in places]  # 100 means all of them
        return told | self.growing.told()

    def end(self, frame: Frame) -> Message:
        headline, detail = verdict(frame, self.case, self.experiment)
        return {"certified": frame.certified, "exact": frame.scores.exact, "headline": headline, "detail": detail}

    def _told_of(self, objective: Objective) -> Message:
        """What a curve is titled, and its goal, where the truth's own value is another than 0."""
        goal = self.case.nats if objective is NATS else None
        told = {"name": objective.name, "title": objective.title, "about": objective.about, "log": objective.log}
        return told | ({} if goal is None else {"goal": value_of(NATS, -goal)})

    def _cost(self) -> list[str]:
        return [cost_of(self.case.likeness)] if self.experiment.covered else []

    def _tokens(self, ids: torch.Tensor) -> list[str]:
        model = self.case.model
        return [
            BLANK if n == model.nothing else token for n, token in zip(ids.tolist(), model.tokens(ids), strict=True)
        ]

    def _marked(self, truth: torch.Tensor, guess: torch.Tensor) -> str:
        """A mark for each token of a guessed sentence; those at its ends have none of their own."""
        model = self.case.model
        first, last = ("x" * len(end) for end in model.ends)
        return first + marks(truth.tolist(), model.inner(guess).tolist()) + last

    def _points(self, vectors: torch.Tensor) -> list[list[int]]:
        return [[round(DIGITS * float(x)) for x in point] for point in self.projection(vectors)]


def laid_out(rooms: Sequence[int], guessed: Sequence[int], inside_of: Callable[[int], slice]) -> list[int]:
    """The guess's flat places in the order in which they are told; -1 is a blank.

    Each guessed sentence, whose length counts the marks at its ends, is laid into the room that the true one's words
    take; what goes beyond comes after the last room.
    """
    inside, beyond, start = [], [], 0
    for room, length in zip(rooms, guessed, strict=True):
        words = [start + n for n in range(length)[inside_of(length)]]
        inside += (words + [-1] * room)[:room]
        beyond += words[room:]
        start += length
    return inside + beyond


def value_of(objective: Objective, value: float) -> float | None:
    """A score as its curve shows it: distances are never below 0, but for rounding; None: nothing was scored yet."""
    shown = -value if objective.negated else max(value, 0.0)
    return float(f"{shown:.4g}") + 0.0 if math.isfinite(value) else None


def packed(kept: torch.Tensor) -> str:
    """(hidden,) bool -> the same in base64, eight coordinates a byte, the first in the highest bit."""
    return base64.b64encode(np.packbits(kept.numpy()).tobytes()).decode()


def marks(truth: list[int], guess: list[int]) -> str:
    """One character a token: = in place, ~ a word that belongs elsewhere, x wrong. No true word is counted twice."""
    found = [a == b for a, b in zip(truth, guess, strict=False)] + [False] * (len(guess) - len(truth))
    missing = [a for a, b in zip_longest(truth, guess[: len(truth)]) if a != b]
    told = ""
    for word, hit in zip(guess, found, strict=False):
        if not hit and word in missing:
            missing.remove(word)
            told += "~"
        else:
            told += "=" if hit else "x"
    return told


def title(experiment: Experiment, model: Model) -> str:
    """What is attacked, in a line: MiniLM-L6, pretrained · attention query of layer 2 · dropout 0.1 · search."""
    how = training(experiment.client, model, len(experiment.sentences))
    how += [told_of(defense) for defense in experiment.defenses]
    return SEPARATOR.join([model.title, place(model, experiment.slice, experiment.layers), *how, experiment.attack])


def training(client: Client, model: Model, sentences: int) -> list[str]:
    """How the client trains, as far as it is not the plainest way: one sentence in eval mode, all of it trained."""
    return client.told(model.net) + ([f"batch of {sentences}"] if sentences > 1 else [])


def place(model: Model, slice: str, layers: tuple[int, ...]) -> str:
    if not SLICES[slice].of_layer:
        return named(model, slice).title
    numbers = " and ".join(str(layer) for layer in layers)
    which = f"layer{'s' if len(layers) > 1 else ''} {numbers}"
    return which if slice == "layer" else f"{SLICES[slice].title} of {which}"


def exposed(parameters: int, share: float) -> str:
    """147,456 of 22.7 M parameters, 0.65 %"""
    return f"{parameters:,} of {parameters / share / 1e6:.1f} M parameters, {100 * share:.2f} %"


def cost_of(likeness: float) -> str:
    """What the defenses take from training, as far as one step can tell."""
    return f"the shared gradient keeps a cosine of {likeness:.2f} with the clean one"


def device_name(model: Model) -> str:
    return {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}.get(model.device.type, model.device.type)
