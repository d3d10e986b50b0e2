"""How fast a step of gradient matching is: plain autograd against the matcher, alternated in one run, as ratios."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher, one_hot, plain_distance
from demo.client.secret import Secret
from demo.client.share import share
from demo.victim.model import Model
from demo.victim.slices import SLICES, select

ROWS = (1, 8, 16)
TOKENS = (8, 16, 32, 64)


def compare(model: Model, name: str, layers: Sequence[int], rounds: int, tokens: int, growth: bool) -> dict:
    """Milliseconds per candidate step (forward, dummy gradient, its distance, and that distance's gradient)."""
    leak = random_leak(model, name, layers, tokens)
    plain, matcher = times(leak, tokens, ROWS, rounds)
    with ThreadPoolExecutor(2) as pool:  # each in a process of its own
        probe = partial(peak_memory, model, name, layers, tokens)
        peaks = dict(zip((0, *ROWS), pool.map(probe, (0, *ROWS)), strict=True))
    report = {
        "model": model.id,
        "slice": name,
        "layers": list(layers) if SLICES[name].of_layer else [],
        "tokens": tokens,
        "device": str(model.device),
        "plain_ms": plain,
        "matcher_ms": matcher,
        "ratio_per_candidate": {rows: plain / spent for rows, spent in matcher.items()},
        "plain_peak_mb": peaks[0],
        "matcher_peak_mb": {rows: peaks[rows] for rows in ROWS},
    }
    if growth:
        report["by_tokens"] = {n: _pair(random_leak(model, name, layers, n), n, rounds) for n in TOKENS}
        if SLICES[name].of_layer:
            one = [(k,) for k in range(model.layers)]
            report["by_layer"] = {k[0]: _pair(random_leak(model, name, k, tokens), tokens, rounds) for k in one}
    return report


def times(leak: Leak, tokens: int, rows: Sequence[int], rounds: int) -> tuple[float, dict[int, float]]:
    """Median ms per candidate of plain autograd and of the matcher by rows; one of each per round shares the noise."""
    matcher = Matcher(leak)
    spent: dict[int, list[float]] = {count: [] for count in (0, *rows)}  # 0: plain
    for round_number in range(rounds + 1):
        for count in spent:
            words = dummies(leak.model, max(1, count), tokens)
            started = time.perf_counter()
            matcher_step(matcher, words) if count else plain_step(leak, words)
            if leak.model.device.type == "cuda":
                torch.cuda.synchronize()
            if round_number:  # the first round warms up
                spent[count].append(1000 * (time.perf_counter() - started) / max(1, count))
    medians = {count: statistics.median(values) for count, values in spent.items()}
    return medians.pop(0), medians


def plain_step(leak: Leak, words: Tensor) -> Tensor:
    return torch.autograd.grad(plain_distance(leak, words, 1, "cosine"), words)[0]


def matcher_step(matcher: Matcher, words: Tensor) -> Tensor:
    labels = one_hot(matcher.model, [1], len(words))
    return torch.autograd.grad(matcher.distance(words, labels, "cosine").sum(), words)[0]


def dummies(model: Model, rows: int, tokens: int) -> Tensor:
    drawn = torch.randn(rows, tokens, model.hidden, generator=torch.Generator().manual_seed(0))
    return (drawn * 0.05).to(model.device).requires_grad_(True)


def random_leak(model: Model, name: str, layers: Sequence[int], tokens: int) -> Leak:
    generator = torch.Generator().manual_seed(0)
    ids = model.ordinary.cpu()[torch.randint(len(model.ordinary), (tokens,), generator=generator)].to(model.device)
    return share(model, Secret((ids,), (1,)), select(model, name, layers))


def peak_memory(model: Model, name: str, layers: Sequence[int], tokens: int, rows: int) -> float:
    """MB that steps need on top of model and leak (0 rows: plain). In a process of its own, as peaks only rise."""
    arguments = [model.id, model.title, name, ",".join(map(str, layers)), str(tokens), str(rows), str(model.device)]
    done = subprocess.run(
        [sys.executable, "-m", "demo.bench.speed", *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def _probe(arguments: list[str]) -> float:
    from demo.victim.models import Weights, load

    name_of_model, title, name, layers, tokens, rows, device = arguments
    weights = None if title.endswith("pretrained") else Weights("normal")  # memory does not depend on the numbers
    model = load(name_of_model, weights, device)
    leak = random_leak(model, name, [int(k) for k in layers.split(",") if k], int(tokens))
    matcher = Matcher(leak)
    on_gpu = device.startswith("cuda")
    # Allocations that stay below the peak of loading would go unseen: fill up to it first.
    filler = None if on_gpu else torch.ones(_resident("VmHWM") - _resident("VmRSS") + 1, dtype=torch.uint8)
    before = torch.cuda.max_memory_allocated() if on_gpu else _resident("VmHWM")
    for _ in range(3):
        if rows == "0":
            plain_step(leak, dummies(model, 1, int(tokens)))
        else:
            matcher_step(matcher, dummies(model, int(rows), int(tokens)))
    after = torch.cuda.max_memory_allocated() if on_gpu else _resident("VmHWM")
    del filler
    return (after - before) / 2**20


def _resident(field: str) -> int:
    """Bytes of this process's memory, now (VmRSS) or at its peak (VmHWM). Linux only."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def _pair(leak: Leak, tokens: int, rounds: int) -> tuple[float, float]:
    plain, matcher = times(leak, tokens, (16,), max(2, rounds // 2))
    return plain, matcher[16]


if __name__ == "__main__":
    print(json.dumps(_probe(sys.argv[1:])))
