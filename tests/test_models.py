import pytest
import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from demo.victim import models
from demo.victim.anatomy import mixed
from demo.victim.bert import Bert
from demo.victim.models import (
    KEPT,
    MODELS,
    ModelError,
    Weights,
    drafted,
    draw,
    load,
    outline,
    pick_device,
    pretrained_folder,
)
from demo.victim.slices import all_pieces, count
from demo.victim.spelling import ordinary_ids, written

SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


def test_network_is_bert(minilm):
    """Our stack gives what transformers' own classifier gives with the same weights."""
    theirs = BertForSequenceClassification.from_pretrained(pretrained_folder("minilm"), attn_implementation="eager")
    theirs.classifier.load_state_dict(minilm.net.classifier.state_dict())
    ids = minilm.encode("the cat sat on the mat")[None]
    with torch.no_grad():
        expected = theirs.eval()(input_ids=ids).logits
        torch.testing.assert_close(minilm.net(minilm.words[ids]), expected)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("tinybert4", 14.4), ("tinybert6", 67.0), ("bert-base", 109.5), ("bert-large", 335.1), ("transformer", 3.4)],
)
def test_sizes_are_the_papers(name, millions):
    with torch.device("meta"):
        net = drafted(MODELS[name], 30522)
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("smollm2", 134.5),
        ("gpt2", 124.4),
        ("smollm2-135m", 134.5),
        ("smollm2-360m", 361.8),
        ("tinyllama", 1100.0),
        ("qwen2.5", 494.0),
    ],
)
def test_an_outline_has_the_published_size_before_anything_is_fetched(name, millions, monkeypatch):
    monkeypatch.setattr(models, "at_hand", lambda name: None)
    model = outline(name, Weights())
    assert count(all_pieces(model)) / 1e6 == pytest.approx(millions, abs=0.1)
    assert not model.reads
    with pytest.raises(ModelError, match=f"{name} is not here yet"):
        model.encode("one two")
    assert outline("gpt2").reads  # drawn, it reads with the embedded tokenizer


def test_decoder_reads_everything_with_its_last_token(tiny_decoder):
    """The classifier's row depends on every token, and a causal row does not depend on later ones."""
    net = tiny_decoder.net
    embedded = net.embed(tiny_decoder.words[tiny_decoder.encode("one two three four")])[None].requires_grad_(True)
    hidden = net.inputs(embedded, 3)
    by_token = torch.autograd.grad(hidden[0, -1, 0], embedded, retain_graph=True)[0].norm(dim=-1)
    assert (by_token > 1e-6).all()
    own = mixed(net.attention(2), embedded, embedded, causal=True)
    later = torch.autograd.grad(own[0, 1, 0], embedded)[0].norm(dim=-1)
    assert (later[0, :2] > 1e-6).all()
    assert (later[0, 2:] == 0).all()


def test_partial_passes_agree_with_the_whole(tiny, tiny_decoder):
    for model in (tiny, tiny_decoder):
        net = model.net
        embedded = net.embed(model.words[model.encode("one two three")])[None]
        for layer in range(3):
            block = net.block(layer)
            attended = net.attended(embedded, layer)
            after = block.output(block.intermediate(attended), attended)
            if layer + 1 != net.decoder:  # what follows the layer before a decoder is the decoder's memory
                torch.testing.assert_close(after, net.inputs(embedded, layer + 1))


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_drawn_weights(tiny, kind):
    """The asked distribution, the same for the same seed and another for another."""
    nets = [Bert(tiny.net.config) for _ in range(3)]
    for net, seed in zip(nets, (5, 5, 6), strict=True):
        draw(net, Weights(kind, 0.03, seed))
    first, same, other = (net.embeddings.word_embeddings.weight.detach() for net in nets)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    expected = 0.03 if kind == "normal" else 0.03 / 3**0.5
    assert float(first.std()) == pytest.approx(expected, rel=0.01)
    assert float(first.abs().max()) <= 0.03 or kind == "normal"
    assert (first.norm(dim=1) > 0).all()  # no zero [PAD] row, whose cosine would be NaN


def test_saved_model_loads(tmp_path, tiny):
    """The hub's way in, on a small model saved as the hub stores it."""
    config = BertConfig(vocab_size=99, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    saved = BertModel(config).eval()
    saved.save_pretrained(tmp_path, safe_serialization=True)
    net = Bert.saved(tmp_path).eval()
    ids = torch.arange(7)[None]
    with torch.no_grad():
        expected = saved(input_ids=ids).last_hidden_state
        torch.testing.assert_close(net.inputs(net.embed(net.embeddings.word_embeddings(ids)), 2), expected)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gpt2", GPT2Config(vocab_size=49152, n_embd=16, n_layer=2, n_head=2)),
        ("qwen2.5", Qwen2Config(vocab_size=49152, **SMALL, num_key_value_heads=1, tie_word_embeddings=True)),
        ("tinyllama", LlamaConfig(vocab_size=49152, **SMALL, num_key_value_heads=1, tie_word_embeddings=False)),
    ],
)
def test_a_decoder_comes_from_the_hub_with_its_own_tokenizer(name, config, tmp_path, monkeypatch):
    theirs = AutoModelForCausalLM.from_config(config).bfloat16().eval()
    theirs.save_pretrained(tmp_path)
    load("smollm2", device="cpu").tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr(models.hub, "download", lambda name, hub: tmp_path)
    try:
        model = load(name, Weights(), "cpu")
    finally:
        KEPT.things.clear()
    ids = model.encode("Naïve, isn't it?")
    assert model.text(ids) == "Naïve, isn't it?"
    assert model.tokens(ids)[-2:] == ["·it", "?"]
    with torch.no_grad():
        ours = model.net.logits(model.net.inputs(model.net.embed(model.words[ids][None]), 2))
        torch.testing.assert_close(ours, theirs.float()(input_ids=ids[None]).logits)


def test_tokens_of_the_other_kind_are_written_likewise():
    """Blanks as ▁, and bytes by their numbers, as sentencepiece has them."""
    vocabulary = {"<s>": 0, "▁the": 1, "<0x0A>": 2, "<0xE6>": 3, "re": 4}
    inner = Tokenizer(BPE(vocabulary, [], byte_fallback=True))
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>")
    assert written(tokenizer, range(5)) == ["<s>", "·the", "⏎", "⟨E6⟩", "re"]
    assert ordinary_ids(tokenizer).tolist() == [1, 2, 3, 4]


def test_hub_out_of_reach_says_so():
    reason = models.unavailable("tinybert4", "pretrained")
    assert reason is not None
    assert "huawei-noah/TinyBERT_General_4L_312D" in reason
    assert "normal or uniform" in reason
    assert "TinyLlama/TinyLlama-1.1B-Chat-v1.0" in models.unavailable("tinyllama", "pretrained")
    with pytest.raises(ModelError, match="has to be fetched from the Hugging Face hub"):
        load("qwen2.5")
    assert models.unavailable("smollm2", "pretrained") is None  # which a package brings, too
    assert models.unavailable("tinybert4", "normal") is None
    assert models.unavailable("minilm", "pretrained") is None


def test_pickled_weights_are_refused(tmp_path, monkeypatch):
    (tmp_path / "pytorch_model.bin").write_bytes(b"not to be loaded")
    monkeypatch.setattr(models.hub, "download", lambda name, hub: tmp_path)
    with pytest.raises(ModelError, match=r"no model\.safetensors"):
        pretrained_folder("bert-base")


def test_tampered_weights_are_refused(tmp_path, monkeypatch):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(models, "EMBEDDED_PACKAGE", "no_such_package")
    monkeypatch.setattr(models.hub, "download", lambda name, hub: tmp_path)
    with pytest.raises(ModelError, match="sha256"):
        pretrained_folder("minilm")


def test_clear_errors(tiny):
    with pytest.raises(ModelError, match="unknown model 'gpt'"):
        load("gpt")
    with pytest.raises(ModelError, match="unknown weights 'zeros'"):
        load("tinybert4", Weights("zeros"))
    with pytest.raises(ModelError, match="empty"):
        tiny.encode("   ")
    with pytest.raises(ModelError, match="602 tokens, but small reads at most 512"):
        tiny.encode("word " * 600)
    with pytest.raises(ModelError, match="device 'warp'"):
        pick_device("warp")


def test_device_can_be_overridden(monkeypatch):
    monkeypatch.setenv("LEAKSCOPE_DEVICE", "cpu")
    assert pick_device().type == "cpu"


def test_guesses_are_ordinary_words(tiny):
    tokenizer = AutoTokenizer.from_pretrained(pretrained_folder("minilm"))
    tokens = tokenizer.convert_ids_to_tokens(tiny.ordinary.tolist())
    assert not {"[CLS]", "[SEP]", "[PAD]", "[MASK]", "[unused5]"} & set(tokens)
    assert "[UNK]" in tokens  # what the model does not know can be guessed too
    assert len(tokens) == 29524


def test_words_stand_between_the_known_ends(tiny):
    ids = torch.cat([tiny.blank(4), tiny.blank(2), tiny.blank(3)])
    assert tiny.inner_places(4, 2, 3).tolist() == (ids == tiny.nothing).nonzero()[:, 0].tolist() == [1, 2, 7]
    assert tiny.inner(tiny.encode("one two")).tolist() == tiny.encode("one two").tolist()[1:-1]
    assert torch.zeros(2)[tiny.inner_places(2)].shape == (0,)  # a length may be read off wrong
