"""The import law: which room may import which, and where heavy libraries may be loaded."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAW = {
    "data": (),
    "engine": ("data",),
    "recipes": ("engine.types",),
    "app": ("data", "recipes"),
    "pages": ("app",),
}
TOP = {*LAW, "tests", "run.py", "pyproject.toml", "requirements.lock"}
TOP |= {"README.md", "CONTRIBUTING.md", "LICENSE", "__pycache__"}
HEAVY = {"torch", "transformers", "peft", "vllm", "docker", "openai", "mcp"}


def test_rooms_import_only_what_the_law_allows() -> None:
    ours = {*LAW, "run", "tests"}
    for path, name, _ in imports():
        room = path.parts[0]
        allowed = any(f"{name}.".startswith(f"{prefix}.") for prefix in (room, *LAW[room]))
        assert name.split(".")[0] not in ours or allowed, f"{path} imports {name}"


def test_inside_a_room_imports_go_one_way() -> None:
    """Where two modules need each other, CycleError names them."""
    needs: dict[str, set[str]] = defaultdict(set)
    for path, name, _ in imports():
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        needs[module] |= {name, name.rpartition(".")[0]} - {module}  # a module, or what is in one
    TopologicalSorter(needs).prepare()


def test_heavy_libraries_are_imported_inside_the_functions_that_need_them() -> None:
    for path, name, at_top in imports():
        heavy = name.split(".")[0] in HEAVY
        assert not (at_top and heavy), f"{path} imports {name} when it is loaded"


def test_the_top_level_holds_what_the_map_shows_and_nothing_else() -> None:
    assert {entry.name for entry in ROOT.glob("[!.]*")} <= TOP


def imports() -> Iterator[tuple[Path, str, bool]]:
    """Every import of the rooms: file, dotted name, whether loading the file runs it."""
    for file in sorted(path for room in LAW for path in (ROOT / room).rglob("*.py")):
        tree, path = ast.parse(file.read_text()), file.relative_to(ROOT)
        late = {id(node) for outer in filter(runs_late, ast.walk(tree)) for node in ast.walk(outer)}
        for node in ast.walk(tree):
            for name in imported(node, path):
                yield path, name, id(node) not in late


def runs_late(node: ast.AST) -> bool:
    """Whether loading a file leaves the inside of this node alone."""
    typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return typing or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def imported(node: ast.AST, path: Path) -> list[str]:
    """The dotted names that one statement imports; relative ones are spelled out."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    parents = path.with_suffix("").parts[: -node.level] if node.level else ()
    start = ".".join((*parents, *filter(None, [node.module])))
    return [f"{start}.{alias.name}" for alias in node.names]
