"""TAG's first Transformer: an encoder of BERT's kind, and a decoder layer that reads the sentence again."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from demo.victim.anatomy import Masks, mixed
from demo.victim.bert import Bert


class EncoderDecoder(Bert):
    """The last layer looks back only, and asks the encoder's last state."""

    PARTS: ClassVar[Mapping[str, str]] = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "attention-output": "attention.output.dense",
        "attention-norm": "attention.output.LayerNorm",
        "cross-query": "crossattention.self.query",
        "cross-key": "crossattention.self.key",
        "cross-value": "crossattention.self.value",
        "cross-output": "crossattention.output.dense",
        "cross-norm": "crossattention.output.LayerNorm",
        "ffn-in": "intermediate.dense",
        "ffn-out": "output.dense",
        "ffn-norm": "output.LayerNorm",
    }
    read_row = -1  # the only token that has seen them all

    def blocks(self, config: BertConfig) -> list[nn.Module]:
        encoder = [BertLayer(config) for _ in range(config.num_hidden_layers - 1)]
        asking = BertConfig(**{**config.to_dict(), "is_decoder": True, "add_cross_attention": True})
        asking._attn_implementation = config._attn_implementation
        self.decoder = len(encoder)
        return [*encoder, BertLayer(asking)]

    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        if layer != self.decoder:
            return super()._attended(embedded, hidden, layer, masks)
        gathered = mixed(self.attention(layer), embedded, embedded, masks, f"{layer}.attention", causal=True)
        own = self.after_attention(layer, embedded, gathered, masks=masks)
        asked = mixed(self.attention(layer, cross=True), own, hidden, masks, f"{layer}.cross")
        return self.after_attention(layer, own, asked, cross=True, masks=masks)
