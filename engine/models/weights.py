"""A base model in memory, with adapters put on and taken off without a trace."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.files import read_manifest
from engine.errors import ModelUnavailable
from engine.models.bits import check_bits, loading_options
from engine.models.registry import check_safetensors, check_weights_folder
from engine.types import ModelRef

if TYPE_CHECKING:
    import torch

PRECISIONS = ("float32", "bfloat16")
PLAIN_ATTENTION_TOKENS = 256
PROBE_IDS = (1, 17, 4093, 198, 33, 1232, 99, 2)  # any few ids: only sameness matters


@dataclass(kw_only=True, slots=True)
class Loaded:
    """A base model on a device, and the adapter that is merged into it at the moment, if any."""

    model: Any
    tokenizer: Any
    name: str
    revision: str
    precision: str
    device: str
    end_ids: frozenset[int]
    fingerprint: str  # of the untouched base
    path: str = ""
    quantize: str | None = None  # "4bit": fit to be trained over, and for nothing else
    adapter_hash: str | None = None
    originals: "dict[str, torch.Tensor]" = field(default_factory=dict)

    @property
    def context(self) -> int:
        """How many tokens the model can read and write together."""
        return int(self.model.config.get_text_config().max_position_embeddings)


def load_base(ref: ModelRef, precision: str, device: str, quantize: str | None = None) -> Loaded:
    """Load a base model that the registry has verified; nothing is fetched and no code of it runs.

    With `quantize` the linear layers of its blocks have 4 bits a weight (NF4, arXiv 2305.14314).
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(ref.path)
    _check_unchanged(ref, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        raise ModelUnavailable(f"{folder} has no chat template: use an instruct model")
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, precision),
        attn_implementation="sdpa",
        local_files_only=True,
        use_safetensors=True,
        **(loading_options(quantize, precision, device) if quantize else {}),
    )
    if not quantize:  # such weights are put on their device while they are made
        model.to(device)
    model.eval().requires_grad_(False)
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        name=ref.base,
        revision=ref.revision,
        precision=precision,
        device=device,
        end_ids=_end_ids(model, tokenizer),
        fingerprint=take_fingerprint(model),
        path=ref.path,
        quantize=quantize,
    )


def load_again(loaded: Loaded, quantize: str | None) -> Loaded:
    """The same base in other bits, in the place of the one that is loaded."""
    ref = ModelRef(base=loaded.name, path=loaded.path, revision=loaded.revision)
    precision, device = loaded.precision, loaded.device
    check_bits(quantize, device)  # before anything is given up
    loaded.model, loaded.originals = None, {}
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
    return load_base(ref, precision, device, quantize)


def _check_unchanged(ref: ModelRef, folder: Path) -> None:
    # The full hash was checked when the registry gave out the reference; here sizes are enough.
    try:
        content = str(read_manifest(folder)["content"])
        for path in sorted(folder.glob("*.safetensors")):
            check_safetensors(path)
    except ValueError as error:
        raise ModelUnavailable(f"{error}. Delete {folder} and make or fetch it again") from None
    if content[: len(ref.revision)] != ref.revision:
        raise ModelUnavailable(f"{folder} is not revision {ref.revision} any more")


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    listed = model.generation_config.eos_token_id
    more = listed if isinstance(listed, list) else [listed]
    return frozenset(int(token) for token in [tokenizer.eos_token_id, *more] if token is not None)


def wear(loaded: Loaded, ref: ModelRef) -> None:
    """Make `loaded` answer as `ref` says: with its adapter merged in, or as the bare base.

    The adapter's product is added to the weights in float32 and rounded once; taking it off puts
    the original tensors back, so that nothing drifts however often adapters change. A fingerprint
    shows afterwards that the adapter, and not the base or an older one, is there.
    """
    if loaded.adapter_hash == ref.adapter_hash:
        return
    _take_off(loaded)
    if ref.adapter is None:
        return
    folder = Path(ref.adapter)
    content = check_weights_folder(folder)
    if ref.adapter_hash and not content.startswith(ref.adapter_hash):
        raise ModelUnavailable(f"{folder} is not adapter {ref.adapter_hash} any more")
    _put_on(loaded, folder)
    loaded.adapter_hash = ref.adapter_hash


def _put_on(loaded: Loaded, folder: Path) -> None:
    try:
        changed = _merge(loaded, folder)
        if changed and take_fingerprint(loaded.model) == loaded.fingerprint:
            raise ModelUnavailable(f"the base still answers after adapter {folder} was put on")
    except BaseException:
        _take_off(loaded)
        raise


def _merge(loaded: Loaded, folder: Path) -> bool:
    """Add every pair of the adapter to its weight; whether any weight changed by that."""
    config = read_adapter_config(folder)
    scale = config["lora_alpha"] / config["r"]
    weights = read_adapter_weights(folder)
    changed = False
    for name in sorted(name for name in weights if name.endswith(".lora_A.weight")):
        path = adapted_parameter(name, config)
        try:
            weight = loaded.model.get_parameter(path)
        except AttributeError:
            raise ModelUnavailable(f"{folder} has weights for {path}, not in the base") from None
        up = weights[name.replace("lora_A", "lora_B")].to(loaded.device)
        delta = _product(up, weights[name].to(loaded.device), weight) * scale
        changed = changed or bool(delta.any())
        # On a GPU the originals wait in main memory, where there is room for a second copy.
        loaded.originals[path] = weight.data.to("cpu")
        weight.data = (weight.data.float() + delta).to(weight.dtype)
    return changed


def adapted_parameter(name: str, config: Mapping[str, Any]) -> str:
    """The base's weight that a tensor of an adapter changes, by the tensor's PEFT name.

    Experts that are one parameter have no layer to be named by: PEFT calls the first of their two
    `experts.base_layer` and the second `experts`, and so does vLLM.
    """
    path = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
    if config.get("target_parameters") and path.endswith(".experts.base_layer"):
        return f"{path.removesuffix('.base_layer')}.gate_up_proj"
    if config.get("target_parameters") and path.endswith(".experts"):
        return f"{path}.down_proj"
    return f"{path}.weight"


def _product(up: "torch.Tensor", down: "torch.Tensor", weight: "torch.Tensor") -> "torch.Tensor":
    """What an adapter adds to a weight of outputs x inputs, or of experts x outputs x inputs."""
    import torch

    if weight.dim() == 2:
        return up @ down
    experts = weight.shape[0]
    one, other = up.reshape(up.shape[0], -1, experts), down.reshape(experts, -1, down.shape[1])
    return torch.einsum("ore,eri->eoi", one, other)


def _take_off(loaded: Loaded) -> None:
    for path, weight in loaded.originals.items():
        loaded.model.get_parameter(path).data = weight.to(loaded.device)
    was_worn = bool(loaded.originals)
    loaded.originals.clear()
    loaded.adapter_hash = None
    if was_worn and take_fingerprint(loaded.model) != loaded.fingerprint:
        raise RuntimeError("the base does not answer as before after an adapter was taken off")


def pick_attention(model: Any, longest: int) -> None:
    """Choose the faster exact attention for rows of up to `longest` tokens.

    On a CPU the plain one beats the fused one on short rows; on long ones its memory grows with the
    square of the length.
    """
    plain = model.device.type == "cpu" and longest <= PLAIN_ATTENTION_TOKENS
    wanted = "eager" if plain else "sdpa"
    if model.config._attn_implementation != wanted:
        model.set_attn_implementation(wanted)


def take_fingerprint(model: Any) -> str:
    """Hash of the logits of a fixed prompt: the same weights on one device give the same hash."""
    import torch

    pick_attention(model, len(PROBE_IDS))
    with torch.inference_mode():
        ids = torch.tensor([PROBE_IDS], device=model.device)
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits
    return hashlib.sha256(logits.float().cpu().numpy().tobytes()).hexdigest()[:16]


def read_adapter_config(folder: Path) -> dict[str, Any]:
    """The adapter's configuration; ModelUnavailable when it is not a plain LoRA adapter."""
    import json

    config: dict[str, Any] = json.loads((folder / "adapter_config.json").read_bytes())
    unusual = [name for name in ("use_dora", "use_rslora", "modules_to_save") if config.get(name)]
    if config.get("peft_type") != "LORA" or unusual:
        raise ModelUnavailable(f"{folder} is not a plain LoRA adapter: {unusual or 'other type'}")
    return config


def read_adapter_weights(folder: Path) -> "dict[str, torch.Tensor]":
    """The adapter's tensors by their PEFT names, in float32 on the CPU."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    return {name: tensor.float() for name, tensor in tensors.items()}
