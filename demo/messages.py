"""What the screen is told: frames as small JSON-ready messages, for the page, the API and the recordings alike.

A run is a list of messages that share an id. The first few carry `start` (what is attacked, the true tokens and their
points), all carry a `frame`, the last carries `end` (the verdict). The stage (assets/stage.js) may miss some, so none
depends on another, and `start` is said more than once.
"""

import secrets
from collections.abc import Iterator
from typing import Any

import torch

from demo.engine import Case, Experiment, Frame, run, set_up
from demo.models import Model
from demo.projection import Projection
from demo.slices import SLICES

Message = dict[str, Any]

GAP = 0.04  # seconds between two frames: more than a screen can draw, and a browser can take
STARTS = 3  # messages that carry `start`
BLANK = "▢"  # a place of which nothing is guessed yet
DIGITS = 1000  # points travel as whole thousandths


def messages(experiment: Experiment, case: Case | None = None, gap: float = GAP) -> Iterator[Message]:
    """The run as the screen sees it, at most a frame per `gap` seconds; closing the generator stops the attack."""
    case = case or set_up(experiment)
    run_id, show = secrets.token_hex(4), Show(experiment, case)
    start, shown, told = show.start(), 0, -torch.inf
    for frame in run(experiment, case):
        seconds = frame.snapshot.seconds
        # A span check's frames are all told, however fast: one for each place is the picture.
        if seconds - told >= gap or frame.snapshot.candidates is not None:
            yield {"run": run_id, "frame": show.frame(shown, frame)} | ({"start": start} if shown < STARTS else {})
            shown, told = shown + 1, seconds
    yield {"run": run_id, "start": start, "frame": show.frame(shown, frame), "end": show.end(frame)}


class Show:
    """Turns one experiment's frames into messages."""

    def __init__(self, experiment: Experiment, case: Case) -> None:
        self.experiment, self.case = experiment, case
        self.truth = case.secret.ids[1:-1].cpu()
        self.projection = Projection.fit(case.model, self.truth)

    def start(self) -> Message:
        model, background = self.case.model, self.projection.background
        points = self._points(model.words[background.to(model.device)].cpu())
        return {
            "title": title(self.experiment, model),
            "attack": self.experiment.attack,
            "device": device_name(model),
            "exposed": exposed(self.case.parameters, self.case.parameter_share),
            "budget": self.experiment.seconds,
            "recorded": False,
            "truth": self._tokens(self.truth),
            "truth_points": self._points(model.words[self.truth.to(model.device)].cpu()),
            "background": [[word, *point] for word, point in zip(model.tokens(background), points, strict=True)],
            "variance": [round(100 * share) for share in self.projection.variance],
        }

    def frame(self, n: int, frame: Frame) -> Message:
        shot, guess = frame.snapshot, frame.snapshot.ids[1:-1]
        told: Message = {
            "n": n,
            "step": shot.step,
            "seconds": round(shot.seconds, 2),
            "left": round(max(0.0, self.experiment.seconds - shot.seconds)),
            "tokens": self._tokens(guess),
            "marks": marks(self.truth.tolist(), guess.tolist()),
            "sure": [round(100 * sure) for sure in shot.confidence[1:-1].tolist()],
            # Joined by blanks: gradio 6.31 sends differences, and gets those of shrinking lists within lists wrong.
            "others": [" ".join(self._tokens(others)) for others in shot.runners_up[1:-1]],
            "points": self._points(shot.embeddings[1:-1]),
            "objective": float(f"{shot.objective:.4g}") if shot.objective < torch.inf else None,
            "recover": round(100 * frame.scores.recover_rate),
            "rouge1": round(100 * frame.scores.rouge1),
            "rougeL": round(100 * frame.scores.rougeL),
            "stage": shot.stage,
        }
        if shot.candidates is not None:
            told["candidates"] = {
                "place": shot.candidates.place,
                "words": self._tokens(shot.candidates.ids),
                "distances": [float(f"{distance:.2g}") for distance in shot.candidates.distances.tolist()],
            }
        return told

    def end(self, frame: Frame) -> Message:
        headline, detail = verdict(frame, self.case, self.experiment)
        return {"certified": frame.certified, "exact": frame.scores.exact, "headline": headline, "detail": detail}

    def _tokens(self, ids: torch.Tensor) -> list[str]:
        mask = self.case.model.tokenizer.mask_token
        return [BLANK if token == mask else token for token in self.case.model.tokens(ids)]

    def _points(self, vectors: torch.Tensor) -> list[list[int]]:
        return [[round(DIGITS * float(x)) for x in point] for point in self.projection(vectors)]


def marks(truth: list[int], guess: list[int]) -> str:
    """One character a token: = in place, ~ a word that belongs elsewhere, x wrong. No true word is counted twice."""
    found = [a == b for a, b in zip(truth, guess, strict=False)] + [False] * (len(guess) - len(truth))
    missing = [a for a, hit in zip(truth, found, strict=False) if not hit]
    told = ""
    for word, hit in zip(guess, found, strict=False):
        if not hit and word in missing:
            missing.remove(word)
            told += "~"
        else:
            told += "=" if hit else "x"
    return told


def title(experiment: Experiment, model: Model) -> str:
    """What is attacked, in a line: MiniLM-L6, pretrained · attention query of layer 2 · certified."""
    return f"{model.title} · {place(experiment.slice, experiment.layers)} · {experiment.attack}"


def place(slice: str, layers: tuple[int, ...]) -> str:
    if not SLICES[slice].of_layer:
        return SLICES[slice].title
    numbers = " and ".join(str(layer) for layer in layers)
    which = f"layer{'s' if len(layers) > 1 else ''} {numbers}"
    return which if slice == "layer" else f"{SLICES[slice].title} of {which}"


def exposed(parameters: int, share: float) -> str:
    """147,456 of 22.7 M parameters, 0.65 %"""
    return f"{parameters:,} of {parameters / share / 1e6:.1f} M parameters, {100 * share:.2f} %"


def device_name(model: Model) -> str:
    return {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}.get(model.device.type, model.device.type)


def verdict(frame: Frame, case: Case, experiment: Experiment) -> tuple[str, str]:
    """The headline and the figures behind it: a certificate, or how far it got and why not further."""
    shot, scores = frame.snapshot, frame.scores
    total = len(case.secret.ids) - 2
    hits = round(scores.position_accuracy * total)
    share = f"{100 * case.parameter_share:.2f} % of the gradient"
    told = f"{hits} of {total} tokens in place in {shot.seconds:.1f} s, from {share}"
    if frame.certified and shot.certificate:
        residual = f"{shot.certificate.residual:.0e}" if shot.certificate.residual else "0"
        proof = f"The gradient was computed anew from the guess: the relative difference is {residual}."
        return "Certified: this sentence, and no other tried, has exactly this gradient.", f"{told}. {proof}"
    if scores.exact:
        return "Recovered, but not certified: the attacker has the sentence and cannot be sure of it.", f"{told}."
    over = shot.seconds >= experiment.seconds or shot.step >= experiment.steps
    why = "the budget is spent" if over else "the attack has no further move"
    words = f"{round(100 * scores.recover_rate)} % of the words were found"
    return f"Not recovered: {why}.", f"{told}; {words}, in their place or elsewhere."
