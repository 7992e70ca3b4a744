"""Formats: what a reader makes of files as people have them, and what it refuses."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.input.documents import FileContents, SourceDocument
from graphrag_assets.input.folder import list_inputs, read_contents, read_input
from graphrag_assets.input.metadata import iso_date, json_able
from graphrag_assets.input.readers import FORMATS, read_bytes
from graphrag_assets.settings import InputSettings
from graphrag_assets.storage.filesystem import FileInfo, LocalFileSystem


def read(name: str, data: bytes | str, **options: Any) -> FileContents:
    return read_bytes(name, data.encode() if isinstance(data, str) else data, InputSettings(**options))


def reasons(found: FileContents) -> list[str]:
    return [rejection.reason for rejection in found.rejections]


def texts(found: FileContents) -> list[str]:
    return [document.text for document in found.documents]


# --- documents -------------------------------------------------------------------------------------------------------


def test_version_depends_on_text_title_date_and_metadata() -> None:
    one = SourceDocument("a", "a", None, "T", "text", {"x": 1, "y": 2}, "2020")
    assert one.content_hash == SourceDocument("b", "b", 3, "T", "text", {"y": 2, "x": 1}, "2020").content_hash
    for other in (
        SourceDocument("a", "a", None, "T2", "text", {"x": 1, "y": 2}, "2020"),
        SourceDocument("a", "a", None, "T", "text2", {"x": 1, "y": 2}, "2020"),
        SourceDocument("a", "a", None, "T", "text", {"x": 2, "y": 2}, "2020"),
        SourceDocument("a", "a", None, "T", "text", {"x": 1, "y": 2}, "2021"),
    ):
        assert other.content_hash != one.content_hash
    assert one.document_id != SourceDocument("b", "b", None, "T", "text").document_id
    assert one.raw_data == '{"x": 1, "y": 2}'
    assert SourceDocument("a", "a", None, "T", "text").raw_data is None


# --- text, Markdown, HTML --------------------------------------------------------------------------------------------


def test_text_file_is_one_document() -> None:
    found = read("a/notes.txt", "Hello\r\nworld")
    document = found.documents[0]
    assert (document.path, document.row, document.title, document.text) == (
        "a/notes.txt",
        None,
        "notes.txt",
        "Hello\nworld",
    )
    assert document.metadata == {}


@pytest.mark.parametrize("name", ["UPPER.TXT", "no-extension", "x.log"])
def test_names_that_are_read_as_text(name: str) -> None:
    assert texts(read(name, "words")) == ["words"]


@pytest.mark.parametrize(
    ("name", "advice"), [("a.xlsx", "csv"), ("a.doc", "docx"), ("a.exe", "file_pattern"), ("b.tar.gz", "unpack")]
)
def test_unsupported_files_are_named_with_advice(name: str, advice: str) -> None:
    found = read(name, "words")
    assert reasons(found) == ["unsupported"]
    assert advice in found.rejections[0].detail


def test_front_matter() -> None:
    found = read("a.md", "---\ntitle: T\ndate: 2024-05-06\nn: 1.5\n---\n\nBody --- text\n")
    document = found.documents[0]
    assert (document.text, document.title, document.creation_date) == ("Body --- text\n", "T", "2024-05-06")
    assert document.metadata == {"title": "T", "date": "2024-05-06", "n": 1.5}


@pytest.mark.parametrize(
    "head",
    [
        "a: &x [1]\nb: *x",
        "a: !!python/object/apply:os.system ['touch /tmp/owned']",
        "a: [unclosed",
        "when: 2024-99-99",
    ],
)
def test_front_matter_that_is_refused_stays_text(head: str) -> None:
    found = read("a.md", f"---\n{head}\n---\nBody")
    assert reasons(found) == ["front_matter"]
    assert found.rejections[0].is_warning
    assert texts(found) == [f"---\n{head}\n---\nBody"]


@pytest.mark.parametrize("text", ["---\nJust a rule\n---\nand more", "---\n", "no front matter", "--- \n\n---"])
def test_rules_are_no_front_matter(text: str) -> None:
    assert texts(read("a.md", text)) == [text]


def test_html() -> None:
    page = """<!doctype html><html lang="en"><head><title>The  Title</title><meta name="author" content="A. Writer">
<meta property="article:published_time" content="2024-01-02T03:04:05Z"><style>p{}</style></head><body><nav>menu</nav>
    <h1>Head</h1><p>One <b>bold</b>&nbsp;word<br>next   line &lt;kept&gt;</p><script>alert(1)</script><!-- gone -->
    <pre>a
      b</pre><ul><li>first</li><li>second</li></ul><table><tr><td>x</td><td>y</td></tr></table></body></html>"""
    document = read("p.html", page).documents[0]
    assert document.title == "The Title"
    assert document.creation_date == "2024-01-02T03:04:05Z"
    assert document.metadata == {"title": "The Title", "author": "A. Writer", "lang": "en"}
    assert document.text.startswith("The Title\n\nHead\n\nOne bold\u00a0word\nnext line <kept>")
    assert "a\n      b" in document.text
    assert "first\nsecond" in document.text
    assert "x | y" in document.text
    for gone in ("menu", "alert", "gone", "p{}"):
        assert gone not in document.text


def test_html_nested_deeply_and_large() -> None:
    assert texts(read("p.html", "<div>" * 1_500 + "deep")) == ["deep"]
    assert reasons(read("p.html", "<p>before" + "<div>" * 50_000 + "deep")) == ["broken"]
    assert len(read("p.html", "<p>" + "word " * 3_000_000 + "</p>").documents[0].text) > 14_000_000


def test_html_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    page = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]><html><body><p>text &e;</p></body></html>'
    assert "SECRET" not in str(texts(read("p.html", page)))


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    data = 'id|text|note\n1|"One, two; three\tfour"|x\n2|Plain|y\n'.replace("|", delimiter)
    found = read("a.csv", data)
    assert texts(found) == ["One, two; three\tfour", "Plain"]
    assert found.documents[1].metadata == {"id": "2", "note": "y"}
    assert found.rejections == []


def test_columns_by_settings() -> None:
    data = "key,body,head,extra\nk1,Text one,Title one,e1\nk2,Text two,,e2\n"
    found = read("d/a.csv", data, text_column="body", title_column="head", id_column="key", metadata=["extra"])
    assert [d.path for d in found.documents] == ["d/a.csv#k1", "d/a.csv#k2"]
    assert [d.title for d in found.documents] == ["Title one", "a.csv (1)"]
    assert [d.metadata for d in found.documents] == [{"extra": "e1"}, {"extra": "e2"}]


def test_ids_that_occur_twice_are_kept_apart() -> None:
    found = read("a.csv", "id,text\n1,One\n1,Two\n,Three\n", id_column="id")
    assert [d.path for d in found.documents] == ["a.csv#1", "a.csv#1 (2)", "a.csv#2"]
    assert reasons(found) == ["duplicate_id", "no_id"]


def test_header_with_equal_names() -> None:
    found = read("a.csv", "text,x,x\nwords,1,2\n")
    assert found.documents[0].metadata == {"x": "1", "x_2": "2"}
    assert reasons(found) == ["duplicate_column"]


def test_unclosed_quote_is_reported() -> None:
    assert "unclosed_quote" in reasons(read("a.csv", 'id,text\n1,"open\n2,next\n'))


def test_lines_are_counted_over_fields_with_line_breaks() -> None:
    found = read("a.csv", 'id,text\n1,"two\nlines"\n2,\n')
    assert [(r.location, r.reason) for r in found.rejections] == [("line 4", "empty")]


def test_json_shapes() -> None:
    assert texts(read("a.json", '{"text": "one", "n": NaN}')) == ["one"]
    assert read("a.json", '{"text": "one", "n": NaN}').documents[0].metadata == {"n": None}
    assert read("a.json", '{"text": "one"}').documents[0].path == "a.json"
    assert [d.path for d in read("a.json", '[{"text": "one"}, 3, {"text": "two"}]').documents] == [
        "a.json#0",
        "a.json#2",
    ]
    assert texts(read("a.json", '{"meta": {"body": "deep"}}', text_column="meta.body")) == ["deep"]
    for bad, reason in (
        ("[]", "empty"),
        ("", "empty"),
        ('"x"', "broken"),
        ("{", "broken"),
        ("[" * 100_000, "broken"),
        ('{"a": 1}', "no_text"),
    ):
        assert reasons(read("a.json", bad)) == [reason], bad


def test_jsonl_keeps_line_separators_inside_strings() -> None:
    data = json.dumps({"text": "a\u2028b"}, ensure_ascii=False) + "\n"
    assert texts(read("a.jsonl", data)) == ["a\u2028b"]


def test_text_that_is_no_text_is_reported() -> None:
    assert reasons(read("a.jsonl", '{"text": ["x"]}\n{"text": {"a": 1}}\n')) == ["no_text", "no_text"]
    assert texts(read("a.jsonl", '{"text": 42}')) == ["42"]


def test_parquet_types() -> None:
    import datetime as dt
    import decimal

    table = pa.table(
        {
            "text": ["one", None],
            "date": [dt.date(2024, 1, 2), None],
            "price": pa.array([decimal.Decimal("1.50"), None]),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "tags": [["a", "b"], None],
            "score": [float("nan"), 1.0],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    found = read("a.parquet", buffer.getvalue())
    assert texts(found) == ["one"]
    assert found.documents[0].creation_date == "2024-01-02"
    assert found.documents[0].metadata["price"] == "1.50"
    json.loads(found.documents[0].raw_data or "")
    assert reasons(found) == ["no_text"]
    assert "'text'" not in str(found.documents[0].metadata)
    assert reasons(read("a.parquet", buffer.getvalue(), text_column="body")) == ["no_text_column"]
    assert reasons(read("a.parquet", buffer.getvalue(), max_expanded_bytes=10)) == ["too_large"]


# --- documents of offices --------------------------------------------------------------------------------------------


def word_file(parts: dict[str, bytes] | None = None) -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Chapter", 2)
    document.add_paragraph("First paragraph.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    document.add_paragraph("Last.")
    buffer = io.BytesIO()
    document.save(buffer)
    if parts:
        with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
    return buffer.getvalue()


def test_word_file() -> None:
    found = read("a.docx", word_file())
    assert texts(found) == ["## Chapter\n\nFirst paragraph.\n\nleft | right\n\nLast."]
    assert found.rejections == []


def without_core_properties(data: bytes) -> bytes:
    """A Word file as programs write it that know no core properties."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "_rels/.rels":
                part = re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", part)
            if name != "docProps/core.xml":
                new.writestr(name, part)
    return buffer.getvalue()


def test_a_word_file_without_properties_is_called_by_its_name() -> None:
    (document,) = read("d/Annual report.docx", without_core_properties(word_file())).documents
    assert (document.title, document.metadata, document.creation_date) == ("Annual report.docx", {}, "")


def test_properties_of_a_template_are_not_those_of_a_word_file() -> None:
    (document,) = read("a.docx", word_file()).documents
    assert (document.title, document.metadata, document.creation_date) == ("a.docx", {}, "")


def pdf_file(title: str) -> bytes:
    import pypdf
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(200, 200)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts = DictionaryObject(
        {NameObject("/F1"): DictionaryObject({NameObject(k): NameObject(v) for k, v in font.items()})}
    )
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = DecodedStreamObject()
    content.set_data(b"BT /F1 12 Tf 10 100 Td (Some words.) Tj ET")
    page[NameObject("/Contents")] = writer._add_object(content)
    writer.add_metadata({"/Title": title})
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def word_file_titled(title: str) -> bytes:
    import docx

    document = docx.Document()
    document.add_paragraph("Some words.")
    document.core_properties.title = title
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "title",
    [
        "untitled",
        "Untitled-1",
        "(unspecified)",
        "Word Document",
        "Microsoft Word - x.docx",
        "Microsoft Word - Minutes of May.doc",
        "Document1",
        "PowerPoint Presentation",
        "Microsoft PowerPoint - slides",
        "C:\\temp\\letter to all.doc",
        "file:///home/ann/x.html",
        "scan_0001",
        "report-final.indd",
    ],
)
def test_titles_that_programs_write_are_none(title: str) -> None:
    assert read("a.pdf", pdf_file(title)).documents[0].title == "a.pdf"
    assert read("a.docx", word_file_titled(title)).documents[0].title == "a.docx"
    assert read("a.html", f"<title>{title}</title><p>Some words.").documents[0].title == "a.html"


@pytest.mark.parametrize(
    "title", ["Untitled: a life", "Document control at Carrow", "1984", "Scan of the horizon", "I/O", "Title IX"]
)
def test_titles_that_people_write_are_kept(title: str) -> None:
    assert read("a.pdf", pdf_file(title)).documents[0].title == title
    assert read("a.docx", word_file_titled(title)).documents[0].title == title
    assert read("a.html", f"<title>{title}</title><p>Some words.").documents[0].title == title


def test_zip_bombs_and_xml_entities_are_refused() -> None:
    bomb = word_file({"word/media/zeros.bin": b"\0" * 20_000_000})
    assert len(bomb) < 200_000
    assert reasons(read("a.docx", bomb, max_expanded_bytes=10_000_000)) == ["too_large"]
    evil = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e "boom">]><x>&e;</x>'
    assert reasons(read("a.docx", word_file({"word/evil.xml": evil}))) == ["unsafe"]
    wide = evil.decode().replace('"1.0"', '"1.0" encoding="UTF-16"').encode("utf-16")
    assert reasons(read("a.docx", word_file({"word/evil.xml": wide}))) == ["unsafe"]


def test_gzip_bombs_are_refused() -> None:
    data = gzip.compress(b"a" * 5_000_000)
    assert reasons(read("a.txt.gz", data, max_expanded_bytes=1_000_000)) == ["too_large"]
    assert len(texts(read("a.txt.gz", data))[0]) == 5_000_000
    assert reasons(read("a.txt.gz", data[:100])) == ["broken"]
    assert reasons(read("a.txt.gz", b"no gzip")) == ["broken"]


@pytest.mark.parametrize(("name", "module"), [("a.pdf", "pypdf"), ("a.docx", "docx")])
def test_missing_library_names_the_extra(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    found = read(name, b"x")
    assert reasons(found) == ["missing_library"]
    assert "graphrag-assets[documents]" in found.rejections[0].detail


def test_pdf_pages_without_text_are_named() -> None:
    import pypdf

    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.add_blank_page(100, 100)
    buffer = io.BytesIO()
    writer.write(buffer)
    found = read("a.pdf", buffer.getvalue())
    assert [(r.location, r.reason) for r in found.rejections] == [
        ("page 1", "page_no_text"),
        ("page 2", "page_no_text"),
        ("", "empty"),
    ]
    writer.encrypt("secret")
    buffer = io.BytesIO()
    writer.write(buffer)
    assert reasons(read("a.pdf", buffer.getvalue())) == ["encrypted"]


@settings(max_examples=150, deadline=None)
@given(ending=st.sampled_from(sorted(FORMATS)), data=st.binary(max_size=400))
def test_no_bytes_break_a_reader(ending: str, data: bytes) -> None:
    found = read(f"x{ending}", data)
    assert found.documents or found.rejections
    for document in found.documents:
        document.text.encode()
        json.dumps(document.metadata, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(ending=st.sampled_from([".csv", ".json", ".jsonl", ".md", ".html", ".txt"]), text=st.text(max_size=300))
def test_no_text_breaks_a_reader(ending: str, text: str) -> None:
    read(f"x{ending}", text.encode("utf-8", "surrogatepass"))


# --- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "date"),
    [
        ("2024-05-06", "2024-05-06"),
        ("2024-05", "2024-05"),
        ("2024", "2024"),
        (2024, "2024"),
        ("2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"),
        ("2024/5/6", "2024-05-06"),
        ("20240506", "2024-05-06"),
        ("6 May 2024", "2024-05-06"),
        ("May 6th, 2024", "2024-05-06"),
        ("May 2024", "2024-05"),
        ("D:20240506070809+01'00'", "2024-05-06T07:08:09"),
        ("Mon, 06 May 2024 07:08:09 +0000", "2024-05-06T07:08:09+00:00"),
        ("05/06/2024", ""),
        ("2024-13-01", ""),
        ("yesterday", ""),
        ("", ""),
        ("9" * 1000, ""),
    ],
)
def test_dates(given_: object, date: str) -> None:
    assert iso_date(given_) == date


def test_json_able_bounds_depth() -> None:
    nested: Any = "x"
    for _ in range(2_000):
        nested = [nested]
    json.dumps(json_able({"a": nested}))


# --- folders ---------------------------------------------------------------------------------------------------------


def test_equal_names_in_two_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.txt").write_text("equal text")
    files = LocalFileSystem(tmp_path)
    documents = [read_input(files, info, InputSettings()).documents[0] for info in list_inputs(files, InputSettings())]
    assert [d.path for d in documents] == ["a/same.txt", "b/same.txt"]
    assert len({d.document_id for d in documents}) == 2
    assert len({d.content_hash for d in documents}) == 1


def test_what_is_listed(tmp_path: Path) -> None:
    for name in ("b.txt", "a.csv", ".hidden.txt", "~$open.docx", "odd.xyz", "no-extension"):
        (tmp_path / name).write_text("text\nx")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c.txt").write_text("x")
    files = LocalFileSystem(tmp_path)

    def names(**options: Any) -> list[str]:
        return [info.path for info in list_inputs(files, InputSettings(**options))]

    assert names() == ["a.csv", "b.txt", "no-extension", "odd.xyz"]
    assert names(type="text") == ["b.txt"]
    assert names(type="text", file_pattern="xyz$") == ["odd.xyz"]
    assert names(file_pattern=r".*\.csv$") == ["a.csv"]
    with pytest.raises(ValueError, match="file_pattern"):
        names(file_pattern="(")


def test_file_names_that_are_no_utf8(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"line\nbreak.txt"):
        try:
            (Path(str(tmp_path)) / name.decode("utf-8", "surrogateescape")).write_text("words")
        except OSError:
            pytest.skip("the file system takes UTF-8 names only")
    files = LocalFileSystem(tmp_path)
    listed = list_inputs(files, InputSettings())
    assert [info.path for info in listed] == ["caf\\xe9.txt", "line\\x0abreak.txt"]
    for info in listed:
        found = read_input(files, info.path, InputSettings())
        assert texts(found) == ["words"]
        assert found.documents[0].file == info.path


def test_large_missing_and_unreadable_files(tmp_path: Path) -> None:
    files = LocalFileSystem(tmp_path)
    large = read_contents(files, FileInfo("a.txt", 101, 0.0), InputSettings(max_file_bytes=100))
    assert (reasons(large[0]), large[1]) == (["too_large"], None)
    assert reasons(read_input(files, "gone.txt", InputSettings())) == ["unreadable"]


def test_a_failing_store_is_no_bad_file() -> None:
    class Unreachable:
        def read(self, path: str) -> bytes:
            raise ConnectionError("no route to host")

    with pytest.raises(ConnectionError):
        read_input(Unreachable(), "a.txt", InputSettings())


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "outside.txt")
    files = LocalFileSystem(tmp_path / "in")
    assert list(files.list()) == []
    (link,) = list_inputs(files, InputSettings())
    found = read_input(files, link, InputSettings())
    assert (texts(found), reasons(found)) == ([], ["link_outside"])


@pytest.mark.slow
def test_200_mb_in_one_line() -> None:
    data = b"All of this stands in one line, and it goes on and on. " * 3_640_000
    found = read("big.txt", data)
    assert len(found.documents[0].text) == len(data)
