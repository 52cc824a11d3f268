"""Files and folders are there whole, or not at all."""

from pathlib import Path

import pytest

from data.files import publish, verify_manifest, write_durable, write_manifest


def test_a_file_is_replaced_in_one_step_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "note.txt"
    write_durable(target, b"old")
    write_durable(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "note.txt"
    write_durable(target, b"old")
    with pytest.raises(TypeError):
        write_durable(target, "text, not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def _folder(path: Path, text: str = "content") -> Path:
    path.mkdir()
    (path / "a.txt").write_text(text)
    (path / "inner").mkdir()
    (path / "inner" / "b.txt").write_text("more")
    return path


def test_the_content_hash_covers_files_and_not_notes(tmp_path: Path) -> None:
    one = write_manifest(_folder(tmp_path / "one"), {"run": "r1"})
    two = write_manifest(_folder(tmp_path / "two"), {"run": "r2"})
    other = write_manifest(_folder(tmp_path / "other", "something else"))
    assert one == two != other
    assert verify_manifest(tmp_path / "one") == one


def test_every_kind_of_damage_is_refused_with_the_file_named(tmp_path: Path) -> None:
    def damaged(name: str) -> Path:
        folder = _folder(tmp_path / name)
        write_manifest(folder)
        return folder

    cut = damaged("cut")
    (cut / "a.txt").write_text("con")
    changed = damaged("changed")
    (changed / "a.txt").write_text("CONTENT")
    missing = damaged("missing")
    (missing / "inner" / "b.txt").unlink()
    extra = damaged("extra")
    (extra / "c.txt").write_text("who put this here")
    forged = damaged("forged")
    manifest = forged / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"bytes": 7', '"bytes": 8'))
    manifest.write_text(manifest.read_text().replace('"content": "', '"content": "0'))
    unfinished = _folder(tmp_path / "unfinished")

    for folder, words in {
        cut: "a.txt has 3 bytes",
        changed: "a.txt differs",
        missing: "b.txt is missing",
        extra: "c.txt is not in the manifest",
        forged: "manifest.json was changed",
        unfinished: "never finished",
    }.items():
        with pytest.raises(ValueError, match=words):
            verify_manifest(folder)


def test_publishing_the_same_content_twice_keeps_the_first(tmp_path: Path) -> None:
    first, second = _folder(tmp_path / "x.tmp-1"), _folder(tmp_path / "x.tmp-2", "second")
    final = tmp_path / "final"
    for folder in (first, second):
        write_manifest(folder)
    publish(first, final)
    publish(second, final)
    assert (final / "a.txt").read_text() == "content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final"]


def test_publishing_to_a_place_that_holds_nothing_finished_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    made = _folder(tmp_path / "x.tmp-1")
    write_manifest(made)
    with pytest.raises(OSError, match="Not a directory"):
        publish(made, tmp_path / "link")
    assert not made.exists()
