"""The chat model itself, from its package: its numbers, its tokenizer, and how its words are written."""

import json
import random

import pytest
import torch

from demo.runs.metrics import score
from demo.screen.messages import marks
from demo.ui.choices import PRESETS, experiment_from
from demo.ui.components import drawing_of
from demo.ui.limits import Limits
from demo.ui.notes import described, sentence_note
from demo.victim import models
from demo.victim.models import KEPT, load
from demo.victim.slices import all_pieces, count

FOLDER = models.pretrained_folder("minilm")
SENTENCE = "The patient was diagnosed with diabetes last week."
ODD = (
    " a blank before",
    "two  blanks,\ttab\nline ",
    "naïve 日本語 🙂 ½",
    "<|im_end|> <repo_name> [UNK]",
    "42 1999 3.14",
)


@pytest.fixture(scope="module")
def smollm2():
    return load("smollm2", device="cpu")


def test_its_numbers_are_those_that_transformers_reads_from_the_file(smollm2):
    """Ids and loss as transformers' own reader of such files had them (it needs accelerate, which we do not)."""
    ids = smollm2.encode(SENTENCE)
    assert ids.tolist() == [504, 3158, 436, 7673, 351, 4348, 1596, 2605, 30]
    with torch.no_grad():
        loss = smollm2.net.loss(smollm2.words[ids][None], smollm2.targets(ids, 0))
    assert float(loss) == pytest.approx(4.929585, rel=1e-5)
    assert count(all_pieces(smollm2)) == 134_515_008


def test_text_comes_back_as_it_was_typed(smollm2):
    for text in (*PRESETS.values(), *ODD):
        assert smollm2.text(smollm2.encode(text)) == text


def test_blanks_and_broken_characters_can_be_seen(smollm2):
    def written(text):
        return smollm2.tokens(smollm2.encode(text))

    assert written(SENTENCE)[:4] == ["The", "·patient", "·was", "·diagnosed"]
    assert written("a\nb\tc  42") == ["a", "⏎", "b", "⇥", "c", "··", "4", "2"]
    assert written("naïve 日") == ["na", "ïve", "·⟨E6⟩", "⟨97⟩", "⟨A5⟩"]
    every = smollm2.tokens(smollm2.ordinary)
    assert not [token for token in every if not token or " " in token or not token.isprintable()]
    assert smollm2.tokens(torch.tensor([2])) == ["<|im_end|>"]


def test_special_tokens_are_not_guessed_and_typed_ones_are_text(smollm2):
    assert smollm2.ordinary.tolist() == list(range(17, 49152))
    assert min(smollm2.encode("<|im_end|> <repo_name> <|endoftext|>")) > 16
    assert smollm2.ends == ((), ())
    with pytest.raises(models.ModelError, match="a single token"):
        smollm2.encode("Hello")


def test_scores_tell_capitals_apart(smollm2):
    truth, guess = smollm2.encode("The cat sat."), smollm2.encode("the cat sat.")
    told = score(smollm2, truth, guess)
    assert not told.exact
    assert told.position_accuracy == told.recover_rate == 0.75
    assert marks(truth.tolist(), guess.tolist()) == "x==="
    assert score(smollm2, truth, truth).exact


def test_before_it_is_fetched_it_can_be_chosen_and_counted(monkeypatch):
    """Nothing is fetched for a page that only shows it; its sentences are counted once it is there."""
    monkeypatch.setattr(models, "at_hand", lambda name: None)
    monkeypatch.setattr(
        models, "pretrained_folder", lambda name: pytest.fail("fetched") if name == "smollm2" else FOLDER
    )
    limits = Limits()
    assert sentence_note(limits, "smollm2", SENTENCE).startswith(
        "SmolLM2-135M-Instruct is fetched once, when its first"
    )
    assert "331,776 of 134.5 M" in drawing_of("smollm2", "query", [3])
    experiment = asked_of(limits, SENTENCE)
    assert (experiment.model, experiment.layers) == ("smollm2", (3,))
    assert described(experiment)["truth"] == []
    with pytest.raises(ValueError, match="has 99 tokens: this page takes at most 64"):
        asked_of(limits, "word " * 99)


def test_once_it_is_there_its_tokens_are_counted():
    assert sentence_note(Limits(), "smollm2", SENTENCE).startswith("9 tokens (words or pieces of words).")
    assert described(asked_of(Limits(), SENTENCE))["truth"][1] == "·patient"


def test_another_models_block_is_no_longer_picked():
    spec = json.loads(drawing_of("minilm", "ffn-gate", [2]))
    assert (spec["slice"], spec["chosen"]) == ("layer", [2])


def test_it_goes_when_another_is_chosen():
    load("smollm2", device="cpu")
    load("minilm", device="cpu")
    load("transformer", device="cpu")
    assert not [key for key in KEPT.things if key[0] == "smollm2"]
    ids = random.Random(0).sample(range(17, 49152), 5)
    assert load("smollm2", device="cpu").words[ids].abs().sum() > 0


def asked_of(limits, sentence):
    values = (limits, sentence, [0], "smollm2", None, 0.02, "query", [3], "best", True, True, 5, 0, {}, None, False, {})
    return experiment_from(*values)
