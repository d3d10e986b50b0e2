"""Decoders beside transformers' own models: the same states, logits and gradients, whatever the family's variants."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GPT2Config,
    LlamaConfig,
    Qwen2Config,
)

from demo.victim.causal import Causal
from demo.victim.gpt2 import Gpt2
from demo.victim.hub import ModelError
from demo.victim.llama import Llama

IDS = torch.tensor([5, 17, 3, 42, 17, 8, 60])
SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "attn_implementation": "eager",
}
DROPPED = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
CONFIGS = {
    "gpt2": GPT2Config(vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=40, **dict.fromkeys(DROPPED, 0.0)),
    "gpt2, another width": GPT2Config(vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=40, n_inner=48),
    "llama": LlamaConfig(**SMALL, num_key_value_heads=4, tie_word_embeddings=False),
    "llama, tied": LlamaConfig(**SMALL, num_key_value_heads=4, tie_word_embeddings=True, rms_norm_eps=1e-5),
    "llama, grouped heads": LlamaConfig(
        **SMALL, num_key_value_heads=2, rope_parameters={"rope_type": "default", "rope_theta": 1e5}
    ),
    "llama, wide heads and biases": LlamaConfig(**SMALL, num_key_value_heads=1, head_dim=16, attention_bias=True),
    "qwen2": Qwen2Config(**SMALL, num_key_value_heads=2, tie_word_embeddings=True),
}
PARTS = {  # our names -> transformers', inside a layer
    Llama: {
        "attention-norm": "input_layernorm",
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "attention-output": "self_attn.o_proj",
        "ffn-norm": "post_attention_layernorm",
        "ffn-gate": "mlp.gate_proj",
        "ffn-in": "mlp.up_proj",
        "ffn-out": "mlp.down_proj",
    },
    Gpt2: {
        "attention-norm": "ln_1",
        "attention-output": "attn.c_proj",
        "ffn-norm": "ln_2",
        "ffn-in": "mlp.c_fc",
        "ffn-out": "mlp.c_proj",
    },
}


@pytest.fixture(params=CONFIGS)
def pair(request, tmp_path):
    """Transformers' model with random numbers, norms and biases too, and ours, read from the folder it was saved to."""
    torch.manual_seed(0)
    theirs = AutoModelForCausalLM.from_config(CONFIGS[request.param], attn_implementation="eager").eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.2)
    theirs.save_pretrained(tmp_path)
    ours = (Gpt2 if request.param.startswith("gpt2") else Llama).saved(tmp_path)
    return ours.eval().requires_grad_(False).double(), theirs.double(), tmp_path  # so that rounding hides no fault


def close(ours: Tensor, theirs: Tensor, about: str = "") -> None:
    """To 1e-5; some gradients are 0 but for rounding, as keys' biases are where places do not turn them."""
    assert ours.shape == theirs.shape, about
    assert float((ours - theirs).norm()) <= 1e-5 * float(theirs.norm()) + 1e-8, about


def test_states_and_logits(pair):
    ours, theirs, _ = pair
    with torch.no_grad():
        expected = theirs(input_ids=IDS[None], output_hidden_states=True)
        embedded = ours.embed(ours.words[IDS][None])
        for layer, state in enumerate(expected.hidden_states[:-1]):
            close(ours.inputs(embedded, layer), state)
        last = ours.inputs(embedded, 3)
        close(ours.norm(last), expected.hidden_states[-1])
        close(ours.logits(last), expected.logits)


def test_every_gradient_of_next_word_training(pair):
    ours, theirs, _ = pair
    theirs(input_ids=IDS[None], labels=IDS[None]).loss.backward()
    own = gradients(ours, IDS[None])
    compare(own, theirs.base_model, type(ours))
    if not ours.tied:
        close(own["output.weight"], theirs.lm_head.weight.grad)


def test_every_gradient_of_classification_of_the_last_token(pair):
    causal, _, folder = pair
    ours = causal.told_by("label")
    theirs = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager", pad_token_id=0)
    theirs.eval().double().score.load_state_dict(ours.classifier.state_dict())
    F.cross_entropy(theirs(input_ids=IDS[None]).logits, torch.tensor([1])).backward()
    own = gradients(ours, torch.tensor([1]))
    compare(own, theirs.base_model, type(ours))
    close(own["classifier.weight"], theirs.score.weight.grad)
    assert "output.weight" not in own


def gradients(net: Causal, targets: Tensor) -> dict[str, Tensor]:
    """Of every named part, by autograd."""
    named = {
        f"{part}.{kind}": p for part, module in net.trained.parts().items() for kind, p in module.named_parameters()
    }
    loss = net.trained.loss(net.trained.words[IDS][None], targets).sum()
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def compare(own: dict[str, Tensor], theirs: torch.nn.Module, family: type) -> None:
    """Every gradient of the stack."""
    outside = {"word": "wte", "position": "wpe", "final-norm": "ln_f"} if family is Gpt2 else {}
    outside = outside or {"word": "embed_tokens", "final-norm": "norm"}
    layers = theirs.h if family is Gpt2 else theirs.layers
    seen = set()
    for name, gradient in own.items():
        part, kind = name.rsplit(".", 1)
        layer, _, inside = part.rpartition(".")
        if not layer:
            module = theirs.get_submodule(outside[part]) if part in outside else None
        elif inside in PARTS[family]:
            module = layers[int(layer)].get_submodule(PARTS[family][inside])
        else:
            close(gradient, third(layers[int(layer)].attn.c_attn, inside, kind), name)
            continue
        if module is not None:
            expected = getattr(module, kind).grad
            turned = type(module).__name__ == "Conv1D" and kind == "weight"
            close(gradient, expected.T if turned else expected, name)
            seen.add(module)
    leaves = {m for m in theirs.modules() if any(True for _ in m.parameters(recurse=False))}
    assert {type(m).__name__ for m in leaves - seen} <= {"Conv1D"}  # the fused one


def third(fused: torch.nn.Module, part: str, kind: str) -> Tensor:
    gradient = fused.weight.grad.T if kind == "weight" else fused.bias.grad
    return gradient.chunk(3)[("query", "key", "value").index(part)]


def test_what_is_settled_gives_what_the_whole_sentence_gives(pair):
    """A prefix's keys and values are kept; then two prefixes after one another; then new words after both."""
    net, _, _ = pair
    words = net.words[IDS][None]
    before = net.settled(words[:, 3:5], net.settled(words[:, :3]))
    assert before.tokens == 5
    embedded = net.embed(words)
    rows = torch.cat([words[:, 5:], words[:, :2]])  # another row's words must not matter
    for layer in range(3):
        state = net.inputs(embedded, layer)
        close(net.state(rows, layer, before)[0], state[0, 5:])
        for part in [part for part in net.PARTS if "norm" not in part]:
            reads: list[Tensor] = []
            take = partial(lambda reads, _, args: reads.append(args[0][0]), reads)
            hook = net.parts()[f"{layer}.{part}"].register_forward_pre_hook(take)
            net.inputs(embedded, layer + 1)
            hook.remove()
            close(net.entering(rows, layer, part, before)[0], reads[0][5:], part)
            close(net.entering(words, layer, part)[0], reads[0], part)


def test_another_kind_of_places_or_family_is_refused(tmp_path):
    config = LlamaConfig(**SMALL, num_key_value_heads=4)
    config.rope_parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    with pytest.raises(ModelError, match="rotary places of type 'linear'"):
        Llama(config)
    AutoModelForCausalLM.from_config(CONFIGS["gpt2"]).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="is a gpt2: give one of llama, qwen2"):
        Llama.saved(tmp_path)
    AutoModelForCausalLM.from_config(config).bfloat16().save_pretrained(tmp_path / "other")
    with pytest.raises(ModelError, match="is a llama: give a gpt2"):
        Gpt2.saved(tmp_path / "other")


def test_bfloat16_on_disk_is_float32_in_use(tmp_path):
    theirs = AutoModelForCausalLM.from_config(CONFIGS["llama, tied"]).bfloat16()
    theirs.save_pretrained(tmp_path)
    net = Llama.saved(tmp_path)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}
    assert torch.equal(net.words, theirs.model.embed_tokens.weight.float())
