"""The sizes of a model, read from its config.json: layers, linear maps, parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.types import LoraSettings

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
GATED_QUERIES = ("qwen3_5", "qwen3_next")  # their attention makes a gate beside each query


@dataclass(kw_only=True, slots=True, frozen=True)
class Linear:
    """One kind of linear map in the blocks, in how many layers it is, and how many in each.

    `active` counts those of a layer's experts that a token passes; `fused` ones are one parameter
    that holds all experts of a layer.
    """

    name: str
    inputs: int
    outputs: int
    layers: int
    experts: int = 1
    active: int = 1
    fused: bool = False

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs * self.layers * self.experts


@dataclass(kw_only=True, slots=True, frozen=True)
class ModelShape:
    """What of a model decides how much memory it takes."""

    hidden: int
    layers: int
    vocabulary: int
    heads: int
    attention_width: int  # of all queries together
    key_width: int
    intermediate: int  # the widest feed-forward
    active_intermediate: int  # what a token passes through in one layer, experts together
    cache_numbers: int  # kept for each token of a conversation, over all layers
    embedding_parameters: int
    linears: tuple[Linear, ...]

    @property
    def linear_parameters(self) -> int:
        """Weights of the blocks' linear maps, experts included."""
        return sum(one.parameters for one in self.linears)

    @property
    def layer_parameters(self) -> int:
        """Those of linear layers of their own, so without fused experts."""
        return sum(one.parameters for one in self.linears if not one.fused)

    @property
    def parameters(self) -> int:
        """All weights; norms and biases are nothing beside the rest."""
        return self.linear_parameters + self.embedding_parameters

    def targets(self, settings: LoraSettings) -> list[Linear]:
        """The maps that get an adapter."""
        wanted, fused = set(settings.target_modules), tuple(settings.target_parameters)
        return [
            one
            for one in self.linears
            if (_is_named(one.name, fused) if one.fused else not wanted or one.name in wanted)
        ]

    def lora_parameters(self, settings: LoraSettings) -> int:
        """Trained numbers of an adapter."""
        return sum(
            settings.rank * (one.inputs + one.outputs) * one.layers * one.experts
            for one in self.targets(settings)
        )

    def fused_targets(self, settings: LoraSettings) -> int:
        """Weights of one layer's experts that get an adapter."""
        targets = [one for one in self.targets(settings) if one.fused]
        return sum(one.inputs * one.outputs * one.experts for one in targets)

    def adapted_inputs(self, settings: LoraSettings) -> int:
        """Numbers that enter the adapted maps of one layer for one token."""
        targets = self.targets(settings)
        return round(sum(one.inputs * one.active * one.layers for one in targets) / self.layers)

    def adapted(self, settings: LoraSettings) -> int:
        """Adapted maps that a token passes in one layer, rounded up."""
        targets = self.targets(settings)
        return -(-sum(one.active * one.layers for one in targets) // self.layers)


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """The sizes that a config.json states; a ValueError names what it lacks."""
    text: Mapping[str, Any] = {**config, **(config.get("text_config") or {})}
    try:
        return _shape(text)
    except KeyError as missing:
        raise ValueError(f"config.json states no {missing.args[0]}") from None


def _shape(text: Mapping[str, Any]) -> ModelShape:
    hidden, layers = int(text["hidden_size"]), int(text["num_hidden_layers"])
    linear_layers = _linear_layers(text, layers)
    full_layers = layers - linear_layers
    attention = [*_attention(text, hidden, full_layers), *_delta_net(text, hidden, linear_layers)]
    feed = _feed_forward(text, hidden, layers)
    heads = int(text["num_attention_heads"])
    head = int(text.get("head_dim") or hidden // heads)
    keys = head * int(text.get("num_key_value_heads") or heads)
    vocabulary = int(text["vocab_size"])
    ups = [one for one in feed if one.name == "up_proj" or one.name.endswith("gate_up_proj")]
    tied = bool(text.get("tie_word_embeddings", False))
    return ModelShape(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        attention_width=heads * head,
        key_width=keys,
        intermediate=max(one.outputs for one in ups),
        active_intermediate=sum(one.outputs * one.active // (1 + one.fused) for one in ups),
        cache_numbers=full_layers * _cached(text, keys),
        embedding_parameters=vocabulary * hidden * (1 if tied else 2),
        linears=tuple(one for one in [*attention, *feed] if one.layers),
    )


def _linear_layers(text: Mapping[str, Any], layers: int) -> int:
    """How many layers keep a state of fixed size instead of keys and values."""
    kinds = text.get("layer_types")
    if kinds:
        return sum(1 for kind in kinds if kind == "linear_attention")
    if "linear_num_value_heads" not in text:
        return 0
    return layers - layers // int(text.get("full_attention_interval") or 4)


def _attention(text: Mapping[str, Any], hidden: int, layers: int) -> list[Linear]:
    if text.get("kv_lora_rank"):
        return _latent_attention(text, hidden, layers)
    heads = int(text["num_attention_heads"])
    head = int(text.get("head_dim") or hidden // heads)
    keys = head * int(text.get("num_key_value_heads") or heads)
    gated = str(text.get("model_type", "")).startswith(GATED_QUERIES)
    return [
        Linear(name="q_proj", inputs=hidden, outputs=heads * head * (1 + gated), layers=layers),
        Linear(name="k_proj", inputs=hidden, outputs=keys, layers=layers),
        Linear(name="v_proj", inputs=hidden, outputs=keys, layers=layers),
        Linear(name="o_proj", inputs=heads * head, outputs=hidden, layers=layers),
    ]


def _latent_attention(text: Mapping[str, Any], hidden: int, layers: int) -> list[Linear]:
    """Attention over a compressed key and value, as DeepSeek-V2 (arXiv 2405.04434) has it."""
    heads, latent = int(text["num_attention_heads"]), int(text["kv_lora_rank"])
    plain, turned = int(text["qk_nope_head_dim"]), int(text["qk_rope_head_dim"])
    value, query_latent = int(text["v_head_dim"]), text.get("q_lora_rank")
    queries = heads * (plain + turned)
    both = heads * (plain + value)
    maps = [("kv_a_proj_with_mqa", hidden, latent + turned), ("kv_b_proj", latent, both)]
    if query_latent:
        maps += [("q_a_proj", hidden, query_latent), ("q_b_proj", query_latent, queries)]
    else:
        maps += [("q_proj", hidden, queries)]
    maps += [("o_proj", heads * value, hidden)]
    return [Linear(name=name, inputs=a, outputs=b, layers=layers) for name, a, b in maps]


def _delta_net(text: Mapping[str, Any], hidden: int, layers: int) -> list[Linear]:
    """Linear attention: Gated DeltaNet (arXiv 2412.06464), in the two namings that are in use."""
    if not layers:
        return []
    values = int(text["linear_num_value_heads"])
    value = values * int(text["linear_value_head_dim"])
    key = int(text["linear_num_key_heads"]) * int(text["linear_key_head_dim"])
    if str(text.get("model_type", "")).startswith("qwen3_next"):
        maps = [("in_proj_qkvz", 2 * key + 2 * value), ("in_proj_ba", 2 * values)]
    else:
        maps = [("in_proj_qkv", 2 * key + value), ("in_proj_z", value)]
        maps += [("in_proj_b", values), ("in_proj_a", values)]
    into = [Linear(name=name, inputs=hidden, outputs=out, layers=layers) for name, out in maps]
    return [*into, Linear(name="out_proj", inputs=value, outputs=hidden, layers=layers)]


def _feed_forward(text: Mapping[str, Any], hidden: int, layers: int) -> list[Linear]:
    experts = next((int(text[name]) for name in EXPERTS if text.get(name)), 0)
    if not experts:
        return _gated(hidden, int(text["intermediate_size"]), layers)
    dense = _dense_layers(text, layers)
    inner = int(text.get("moe_intermediate_size") or text["intermediate_size"])
    active = int(text.get("num_experts_per_tok") or 1)
    routed = [
        Linear(
            name=f"mlp.experts.{name}",
            inputs=inputs,
            outputs=outputs,
            layers=layers - dense,
            experts=experts,
            active=active,
            fused=True,
        )
        for name, inputs, outputs in (
            ("gate_up_proj", hidden, 2 * inner),
            ("down_proj", inner, hidden),
        )
    ]
    shared = int(text.get("shared_expert_intermediate_size") or 0)
    shared = shared or inner * int(text.get("n_shared_experts") or 0)
    more = _gated(hidden, shared, layers - dense) if shared else []
    plain = _gated(hidden, int(text["intermediate_size"]), dense) if dense else []
    return [*routed, *more, *plain]


def _gated(hidden: int, inner: int, layers: int) -> list[Linear]:
    return [
        Linear(name="gate_proj", inputs=hidden, outputs=inner, layers=layers),
        Linear(name="up_proj", inputs=hidden, outputs=inner, layers=layers),
        Linear(name="down_proj", inputs=inner, outputs=hidden, layers=layers),
    ]


def _dense_layers(text: Mapping[str, Any], layers: int) -> int:
    """Layers of a mixture that have a plain feed-forward."""
    listed: Sequence[int] = text.get("mlp_only_layers") or ()
    kinds: Sequence[str] = text.get("mlp_layer_types") or ()
    if kinds:
        return sum(1 for kind in kinds if kind == "dense")
    return min(layers, len(listed) or int(text.get("first_k_dense_replace") or 0))


def _cached(text: Mapping[str, Any], keys: int) -> int:
    if text.get("kv_lora_rank"):
        return int(text["kv_lora_rank"]) + int(text["qk_rope_head_dim"])
    return 2 * keys


def _is_named(name: str, asked: Sequence[str]) -> bool:
    return any(name == one or name.endswith(f".{one}") for one in asked)
