"""The reference: transformers with PEFT's own layers, one `generate` a prompt, nothing of ours."""

import gc
import warnings
from collections.abc import Sequence

from engine.types import Ask, ModelRef


def plain_answers(model: ModelRef, asks: Sequence[Ask]) -> list[tuple[object, ...]]:
    """Key, text, tokens in, tokens out and finish of greedy float32 answers, in the asks' order."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.path, local_files_only=True)
    network = AutoModelForCausalLM.from_pretrained(
        model.path, dtype=torch.float32, local_files_only=True
    )
    if model.adapter is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # one of PEFT's own
            network = PeftModel.from_pretrained(network, model.adapter)
    network.eval()
    try:
        return [_answer(network, tokenizer, ask) for ask in asks]
    finally:
        del network
        gc.collect()


def _answer(network: object, tokenizer: object, ask: Ask) -> tuple[object, ...]:
    chat = tokenizer.apply_chat_template  # type: ignore[attr-defined]
    inputs = chat(ask.messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = network.generate(  # type: ignore[attr-defined]
        **inputs, do_sample=False, max_new_tokens=ask.max_tokens
    )
    asked = inputs["input_ids"].shape[1]
    answer = written[0, asked:].tolist()
    finish = "stop" if answer[-1] == tokenizer.eos_token_id else "length"  # type: ignore[attr-defined]
    text = tokenizer.decode(answer, skip_special_tokens=True)  # type: ignore[attr-defined]
    return ask.key, text, asked, len(answer), finish
