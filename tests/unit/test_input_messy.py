"""Every file of a collection of real and broken files gives the documents that its manifest says."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.input.documents import FileContents
from graphrag_assets.input.folder import list_inputs, read_input
from graphrag_assets.input.language import detect_language
from graphrag_assets.input.readers import read_bytes
from graphrag_assets.settings import InputSettings
from graphrag_assets.storage.filesystem import LocalFileSystem

SETTINGS = InputSettings()


@pytest.fixture(scope="module")
def messy(shared: Path) -> Path:
    return shared / "data" / "messy-inputs"


@pytest.fixture(scope="module")
def manifest(messy: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (messy / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def contents(
    messy: Path, manifest: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, FileContents]:
    names = tmp_path_factory.mktemp("names")
    with tarfile.open(messy / "files" / "names.tar") as archive:
        archive.extractall(names, filter="data")
    found = {}
    for entry in manifest:
        folder = names if entry.get("inside") else messy / "files"
        found[entry["file"]] = read_bytes(entry["file"], (folder / entry["file"]).read_bytes(), SETTINGS)
    return found


def test_every_line_of_the_manifest(manifest: list[dict[str, Any]], contents: dict[str, FileContents]) -> None:
    assert len(manifest) == 89
    for entry in manifest:
        name, found = entry["file"], contents[entry["file"]]
        texts = [document.text for document in found.documents]
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        if entry.get("docs") is not None:
            assert len(texts) == entry["docs"], name
        if not texts:
            assert found.rejections, f"{name} vanishes silently"
        if entry.get("sha256_text"):
            assert hashes == [entry["sha256_text"]], name
        if entry.get("sha256_docs"):
            assert hashes == entry["sha256_docs"], name
        for part in entry.get("must_contain", []):
            assert any(part in text for text in texts), (name, part)
        for part in entry.get("must_not_contain", []):
            assert not any(part in text for text in texts), (name, part)


def test_what_holds_for_every_document(contents: dict[str, FileContents]) -> None:
    paths = [document.path for found in contents.values() for document in found.documents]
    assert len(paths) == len(set(paths))
    for name, found in contents.items():
        for document in found.documents:
            assert document.title.strip()
            assert document.file == name
            assert not document.text.startswith("\ufeff")
            assert not any(c < " " and c not in "\n\t" for c in document.text)
            document.text.encode("utf-8")
            json.loads(document.raw_data or "{}")
        for rejection in found.rejections:
            assert rejection.file == name
            assert rejection.reason
            assert rejection.detail


def test_right_guesses_are_sure(manifest: list[dict[str, Any]], contents: dict[str, FileContents]) -> None:
    for entry in manifest:
        if entry.get("sha256_text"):
            assert contents[entry["file"]].rejections == [], entry["file"]


def reasons(found: FileContents) -> list[tuple[str, str]]:
    return [(r.location, r.reason) for r in found.rejections]


def test_reasons_and_places(contents: dict[str, FileContents]) -> None:
    expected = {
        "broken/empty.txt": [("", "empty")],
        "broken/whitespace-only.txt": [("", "empty")],
        "broken/bom-only.txt": [("", "empty")],
        "broken/binary.txt": [("", "binary")],
        "broken/png-named.txt": [("", "binary")],
        "broken/invalid-utf8.txt": [("line 77", "invalid_bytes")],
        "csv/no-text-column.csv": [("", "no_text_column")],
        "csv/header-only.csv": [("", "empty")],
        "csv/duplicate-ids.csv": [("line 3", "duplicate_id")],
        "csv/ragged.csv": [
            ("line 3", "ragged"),
            ("line 4", "surplus_cells"),
            ("line 5", "empty"),
            ("line 6", "empty"),
        ],
        "json/messy.jsonl": [
            ("line 6", "broken"),
            ("line 10", "not_an_object"),
            ("line 17", "no_text"),
            ("line 18", "no_text"),
            ("line 19", "lone_surrogate"),
        ],
        "docs/scan-no-text.pdf": [("page 1", "page_no_text"), ("", "empty")],
        "docs/not-a.pdf": [("", "broken")],
        "docs/not-a.docx": [("", "broken")],
    }
    assert {name: reasons(contents[name]) for name in expected} == expected
    assert "'id', 'title'" in contents["csv/no-text-column.csv"].rejections[0].detail
    assert "'text'" in contents["csv/no-text-column.csv"].rejections[0].detail


def test_metadata_titles_and_dates(contents: dict[str, FileContents]) -> None:
    row = contents["csv/chapters.csv"].documents[1]
    assert (row.path, row.row, row.title, row.creation_date) == (
        "csv/chapters.csv#1",
        1,
        "The Pool of Tears",
        "1865-11-02",
    )
    assert row.metadata == {"id": "2", "title": "The Pool of Tears", "author": "Lewis Carroll", "date": "1865-11-02"}
    assert contents["json/chapters.json"].documents[11].metadata["meta"] == {"chapter": 12, "tags": ["fiction", "1865"]}
    page = contents["md/front-matter.md"].documents[0]
    assert page.metadata == {"title": "Alice: front matter", "author": "Lewis Carroll", "tags": ["a", "b"]}
    assert page.text.startswith("# Down the Rabbit-Hole")
    assert contents["html/page-windows1252.html"].documents[0].title == "Alice & the Caucus–Race"
    assert contents["docs/alice.docx"].documents[0].title == "Alice in Word"
    assert "Alice | thimble" in contents["html/page-windows1252.html"].documents[0].text
    assert contents["csv/chapters-windows1252.csv"].encoding == "cp1252"


def test_languages(manifest: list[dict[str, Any]], contents: dict[str, FileContents]) -> None:
    for entry in manifest:
        found = contents[entry["file"]]
        if entry.get("language") and found.documents and len(found.documents[0].text) > 500:
            assert detect_language(found.documents[0].text) == entry["language"].split("-")[0], entry["file"]


def test_a_folder_with_awkward_names(messy: Path, tmp_path: Path) -> None:
    with tarfile.open(messy / "files" / "names.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    files = LocalFileSystem(tmp_path)
    listed = [info.path for info in list_inputs(files, SETTINGS)]
    assert listed == sorted(listed)
    assert "names/.hidden.txt" not in listed
    assert len(listed) == 5
    assert all(len(read_input(files, info, SETTINGS).documents) == 1 for info in list_inputs(files, SETTINGS))
    assert len(list_inputs(files, InputSettings(hidden_files=True))) == 6
    assert [i.path for i in list_inputs(files, InputSettings(file_pattern=r"deep/.*\.txt$"))] == [
        "names/deep/a/b/c/d/e/nested.txt"
    ]
