"""Leakscope in the terminal: one attack with a live line of tokens. `python app.py --help` lists the choices."""

import argparse
import sys

from demo.attacks import ATTACKS
from demo.engine import Experiment, Frame, run, set_up
from demo.models import MODELS
from demo.slices import SLICES

SENTENCE = "The patient was diagnosed with diabetes last week."
IN_PLACE, ELSEWHERE, WRONG, PLAIN = "\033[32m", "\033[33m", "\033[90m", "\033[0m"


def tokens_line(frame: Frame, truth: list[str], tokens: list[str], colour: bool) -> str:
    """The guess, each token marked: ✓ in place, ↔ right word in the wrong place, ✗ wrong."""
    marked = []
    for place, token in enumerate(tokens[1:-1], 1):
        hit = place < len(truth) and token == truth[place]
        mark, tint = ("✓", IN_PLACE) if hit else ("↔", ELSEWHERE) if token in truth else ("✗", WRONG)
        marked.append(f"{tint}{token} {mark}{PLAIN}" if colour else f"{token} {mark}")
    return f"{frame.snapshot.seconds:5.1f} s  {'  '.join(marked)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Watch a gradient give away its sentence.")
    parser.add_argument("sentence", nargs="?", default=SENTENCE)
    parser.add_argument("--model", choices=MODELS, default="minilm")
    parser.add_argument("--slice", choices=SLICES, default="layer")
    parser.add_argument("--layer", type=int, default=3)
    parser.add_argument("--attack", choices=ATTACKS, default="best")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--device")
    options = parser.parse_args()
    experiment = Experiment(
        options.sentence, model=options.model, slice=options.slice, layers=(options.layer,), attack=options.attack,
        seconds=options.seconds, device=options.device,
    )  # fmt: skip
    try:
        case = set_up(experiment)
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    where = f", layer {options.layer}" if SLICES[options.slice].of_layer else ""
    print(f"{case.model.title} on {case.model.device}; exposed: {SLICES[options.slice].title}{where}:")
    share = f"{100 * case.parameter_share:.2f} %"
    print(f"{case.parameters:,} parameters, {share} of the model. The attacker sees only that.\n")
    truth, last = case.model.tokens(case.secret.ids), ""
    for frame in run(experiment, case):
        line = tokens_line(frame, truth, case.model.tokens(frame.snapshot.ids), sys.stdout.isatty())
        if line.split("s", 1)[1] != last:
            print(line, flush=True)
            last = line.split("s", 1)[1]
    if frame.certified:
        print("\nCertified: this sentence, and no other tried, has exactly this gradient.")
    else:
        words, places = 100 * frame.scores.recover_rate, 100 * frame.scores.position_accuracy
        found = f"{words:.0f} % of the words, {places:.0f} % in place"
        print(f"\nNot certified after {frame.snapshot.seconds:.0f} s: {found}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
