"""Which folders may become base models: what is refused is named, what is taken is whole."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.models import bases, hub
from engine.models.bases import Wanted, add_base
from engine.models.door import check_door, check_names, is_taken
from engine.models.registry import EMBEDDED, find_base
from engine.models.template_trial import draw_talks, try_template
from engine.types import ModelRef

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
HEADER = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
SHARD = "model-00001-of-00002.safetensors"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def model(folder: Path) -> Path:
    """A folder as people have them, with weights of four numbers."""
    folder.mkdir(parents=True)
    weights(folder / "model.safetensors")
    config = {"model_type": "llama", "hidden_size": 4}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def weights(path: Path) -> None:
    path.write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + bytes(16))


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def template(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "chat_template.jinja").write_text(text)


def config(**more: object) -> Callable[[Path], object]:
    record = {"model_type": "llama"} | more
    return lambda folder: (folder / "config.json").write_text(json.dumps(record))


def without(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


def gguf_alone(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.Q4_K_M.gguf")


def half_of_two(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / SHARD)


def lacking_a_tensor(folder: Path) -> None:
    half_of_two(folder)
    index({"w": SHARD, "lost": SHARD})(folder)


def index(weight_map: object) -> Callable[[Path], object]:
    record = json.dumps({"weight_map": weight_map})
    return lambda folder: (folder / "model.safetensors.index.json").write_text(record)


def header(text: bytes) -> Callable[[Path], object]:
    whole = len(text).to_bytes(8, "little") + text + bytes(16)
    return lambda folder: (folder / "model.safetensors").write_bytes(whole)


def added(name: str, text: str = "{}") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def link_to_a_secret(folder: Path) -> None:
    secret = folder.parent / "secret.txt"
    secret.write_text("TOP SECRET")
    (folder / "LICENSE").symlink_to(secret)


REFUSED = {
    "a truncated checkpoint": (cut, r"model\.safetensors has 78 bytes"),
    "a part without the rest": (half_of_two, r"index\.json is missing.*fetch it again"),
    "a tensor short": (lacking_a_tensor, f"{SHARD} lacks the tensor lost: fetch it again"),
    "a .bin file": (
        lambda folder: (folder / "pytorch_model.bin").write_bytes(b"x"),
        r"pytorch_model\.bin is not safetensors: pickled weights can run code",
    ),
    "a disguised pickle": (
        lambda folder: (folder / "vocab.txt").write_bytes(pickle.dumps({"w": 1})),
        r"vocab\.txt is not safetensors: pickled weights can run code",
    ),
    "auto_map": (
        config(auto_map={"AutoModelForCausalLM": "x.Y"}),
        r"config\.json asks for code of its own to be loaded \(auto_map\)",
    ),
    "code beside the weights": (
        lambda folder: (folder / "modeling_x.py").write_text("print(1)"),
        r"modeling_x\.py is program code",
    ),
    "GGUF alone": (gguf_alone, "GGUF alone, which cannot be trained here: take"),
    "quantized for serving": (
        config(quantization_config={"quant_method": "gptq"}),
        r"weights are quantized \(gptq\): take",
    ),
    "quantized by a word": (config(quantization_config="awq"), r"are quantized \(awq\): take"),
    "an index that is a list": (index(["w"]), r"index\.json .* no weight_map .*fetch it again"),
    "an index of numbers": (index({"w": 5}), r"index\.json .* no weight_map .*fetch it again"),
    "a part outside": (index({"w": "../model.safetensors"}), "is missing, and .* needs it"),
    "a part with a very long name": (index({"w": "x" * 5000}), "is missing, and .* needs it"),
    "an endless shape": (
        header(b'{"w":{"dtype":"F32","shape":[Infinity],"data_offsets":[0,16]}}'),
        r"model\.safetensors has an unreadable header",
    ),
    "an adapter beside the weights": (
        added("adapter_config.json"),
        "adapter_config.json is an adapter's: .*checkpoint import",
    ),
    "adapter weights beside the weights": (
        added("adapter_model.safetensors"),
        "adapter_model.safetensors is an adapter's: .*checkpoint import",
    ),
    "a link out of the folder": (link_to_a_secret, "LICENSE is a link to a file elsewhere"),
    "no tokenizer": (without("tokenizer.json"), "there is no tokenizer"),
    "no template": (without("chat_template.jinja"), "no chat template .*instruct version"),
    "a template without end": (template(LOOP), "chat_template.jinja: .*it takes too long"),
    "a template that fills memory": (
        template("{{ 'a' * 10 ** 9 }}"),
        r"chat_template\.jinja: the chat template needs more than 512 MB",
    ),
    "a template that writes without end": (
        template("{% for i in range(99999) %}{{ messages }}{% endfor %}"),
        "more than 65536 characters",
    ),
    "a template nested too deep": (
        template("{% if 1 %}" * 2000 + "{% endif %}" * 2000),
        "nests too deep",
    ),
    "a template of a megabyte": (template("x" * 2**20), "chat template of more than 65536 bytes"),
    "a template that reaches for Python": (
        template("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        "SecurityError: access to attribute '__class__'",
    ),
    "a template without a system turn": (
        template(
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        ),
        "TemplateError: no system",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_must_not_come_in_is_refused_by_name_and_leaves_nothing(
    what: str, tmp_path: Path
) -> None:
    spoil, says = REFUSED[what]
    folder = model(tmp_path / "given")
    spoil(folder)
    models = tmp_path / "models"
    with pytest.raises(ValueError, match=says):
        add_base(models, Wanted(name="m", folder=folder, origin={}))
    assert not [path for path in models.glob("**/*") if path.is_file()]


def test_names_that_clash_and_folders_that_are_not_there_are_refused(tmp_path: Path) -> None:
    folder, models = model(tmp_path / "given"), tmp_path / "models"
    (models / "taken").mkdir(parents=True)
    for name, says in (
        ("taken", "a base model taken already.*remove-base taken"),
        ("Taken", "a base model taken already"),
        (EMBEDDED.lower(), f"a base model {EMBEDDED} already"),
        ("../up", "is not a model name"),
    ):
        with pytest.raises(ValueError, match=says):
            add_base(models, Wanted(name=name, folder=folder, origin={}))
    with pytest.raises(ValueError, match="is not a folder"):
        add_base(models, Wanted(name="m", folder=tmp_path / "nowhere", origin={}))


def test_too_little_room_is_said_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "SPARE_BYTES", 10**18)
    with pytest.raises(ValueError, match=r"needs 1000000000\.0 GB and .* GB: free some space"):
        bases.check_room(tmp_path, 5)


def test_an_architecture_that_transformers_does_not_know_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "given")
    config(model_type="no_such_architecture")(folder)
    with pytest.raises(ValueError, match=r"transformers cannot load it.*no_such_architecture"):
        add_base(tmp_path / "models", Wanted(name="m", folder=folder, origin={}))


def test_repositories_are_judged_by_their_names_before_anything_is_fetched() -> None:
    whole = ["config.json", "tokenizer.json", "model.safetensors"]
    check_names([*whole, "pytorch_model.bin"])  # the pickle beside is not fetched
    for names, says in (
        (["config.json", "tokenizer.json", "pytorch_model.bin"], "pytorch_model.bin is not safe"),
        ([*whole, "modeling_x.py"], "modeling_x.py is program code"),
        (["config.json", "x.gguf"], "GGUF alone"),
    ):
        with pytest.raises(ValueError, match=says):
            check_names(names)


def test_an_honest_template_is_rendered_as_it_will_be() -> None:
    talks = draw_talks()
    trial = try_template("t", TEMPLATE, {"bos_token": {"content": "<s>"}}, talks)
    system, user = (turn["content"] for turn in talks[0][:2])
    assert trial.text == f"<system>{system}<user>{user}<assistant>"


def test_no_trial_of_a_template_can_be_told_from_real_use() -> None:
    """A trial that is always of the same words would let a template behave for it alone."""
    first, second = draw_talks(), draw_talks()
    assert first != second
    assert len({len(talk[1]["content"]) for talk in first}) == len(first) > 1
    word = " ".join(first[0][1]["content"].split()[:2])  # a short word alone may come again
    behaves = f"{{% if '{word}' not in messages[1].content %}}{LOOP}{{% endif %}}{TEMPLATE}"
    with pytest.raises(ValueError, match="takes too long"):
        try_template("t", behaves, {}, second)


def test_deep_json_beside_the_weights_is_no_crash(tmp_path: Path) -> None:
    folder = model(tmp_path / "given")
    added("x_config.json", "[" * 900 + "]" * 900)(folder)
    assert folder / "x_config.json" in check_door(folder)
    added("x_config.json", "1" * 5000)(folder)
    with pytest.raises(ValueError, match=r"x_config\.json is not JSON"):
        check_door(folder)


def test_a_hub_cache_with_its_links_is_taken_and_others_are_not(tmp_path: Path) -> None:
    cache = tmp_path / "models--lab--tiny"
    folder = model(cache / "snapshots" / ("0" * 40))
    (cache / "blobs").mkdir()
    (folder / "config.json").rename(cache / "blobs" / "b1")
    (folder / "config.json").symlink_to("../../blobs/b1")
    (tmp_path / "linked").symlink_to(folder)
    assert check_door(folder) and check_door(tmp_path / "linked")
    (cache / "blobs" / "b2").symlink_to("/etc/hostname")
    (folder / "NOTICE").symlink_to("../../blobs/b2")
    with pytest.raises(ValueError, match="NOTICE is a link to a file elsewhere"):
        check_door(folder)


def test_only_plain_names_become_part_of_a_model() -> None:
    assert is_taken("additional_chat_templates/tools.jinja")
    for name in ("x/../../y.jinja", "../y.jinja", "deep/y.jinja"):
        assert not is_taken(f"additional_chat_templates/{name}")


def test_what_a_killed_command_left_is_listed_and_what_is_at_work_is_not(tmp_path: Path) -> None:
    left = tmp_path / bases.DOWNLOADS / "adding-big"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(bytes(5000))
    with bases.unfinished(tmp_path, "adding-other"):
        (one,) = hub.unfinished(tmp_path)
    assert (one["hub"], one["name"], one["bytes"]) == (None, "big", 5000)
    assert one["folder"] == str(left)


def test_a_model_is_copied_whole_with_where_it_came_from(tiny: ModelRef, tmp_path: Path) -> None:
    given = tmp_path / "given"
    shutil.copytree(tiny.path, given)
    (given / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    (given / "figure.png").write_bytes(b"png")
    said: list[str] = []
    seen: list[tuple[int, int]] = []
    wanted = Wanted(name="mine", folder=given, origin={"source": "folder given"})
    made = add_base(
        tmp_path / "models", wanted, said.append, lambda done, total: seen.append((done, total))
    )
    assert made["architecture"] == "LlamaForCausalLM" and made["licence"] == "apache-2.0"
    assert seen[-1][0] == seen[-1][1] == made["bytes"]
    assert any("figure.png" in line for line in said)
    assert any(line.startswith("copied; ") for line in said)
    found = find_base(tmp_path / "models", "mine")
    assert found.revision == made["revision"]
    (listed,) = bases.describe_bases(tmp_path / "models")
    assert (listed["name"], listed["source"]) == ("mine", "folder given")
    assert bases.remove_base(tmp_path / "models", "mine") > 0
    assert bases.describe_bases(tmp_path / "models") == []
