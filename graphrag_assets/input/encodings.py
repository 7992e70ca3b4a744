"""Bytes to text: BOMs, UTF-8, UTF-16 without a BOM, older encodings, damaged files, and files that are no text.

What is done to every text: the BOM is dropped; CR LF and CR become LF; NUL and other control characters are removed
(form feed, vertical tab and NEL become a line end, terminal colour sequences go as a whole); lone surrogates become
U+FFFD. Nothing else is changed: no Unicode normalisation, so character spans stay exact.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.encoding_guess import Guess, advantage, guess_encodings, guess_utf16

#: A best guess below this is no text in any encoding that is known here.
_LEAST_SCORE = 0.3
#: A guess below this, or less than this better than a rival where the two differ, is reported.
_SURE_SCORE = 0.5
_SURE_ADVANTAGE = 0.12
_RIVALS = 3
#: Share of control bytes above which a file is binary: in valid UTF-8, and elsewhere.
_CONTROL_SHARE_UTF8 = 0.1
_CONTROL_SHARE = 0.02
#: Wrong bytes that are replaced: this share of all bytes, or of the bytes outside ASCII.
_BAD_SHARE = 0.002
_BAD_SHARE_OF_HIGH = 0.2
#: Places of wrong bytes that a report names.
_PLACES = 5

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF87a", "a GIF picture"),
    (b"GIF89a", "a GIF picture"),
    (b"%PDF-", "a PDF document (name it .pdf)"),
    (b"PK\x03\x04", "a ZIP archive or an Office document (name it .docx if it is one)"),
    (b"\x1f\x8b\x08", "gzip data (name it .gz)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document (save it as .docx)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "Parquet data (name it .parquet)"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"ID3\x03", "sound"),
    (b"OggS\x00", "sound"),
)
_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_HIGH_BYTES = bytes(range(128, 256))
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]")

_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_ANY_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

#: Names that old programs write where they mean the Windows encoding.
_MEANS_WINDOWS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}


class NotTextError(RejectedError):
    """Bytes that are not text (``binary``), or not in an encoding that could be found (``encoding``)."""


@dataclass(frozen=True)
class Problem:
    """Something wrong in a text that could be used all the same: location, reason and detail of a rejection."""

    location: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Decoded:
    """A decoded text.

    Args:
        text: The text, cleaned (:func:`clean_text`).
        encoding: Python name of its encoding.
        problems: What was replaced or guessed without certainty.
    """

    text: str
    encoding: str
    problems: list[Problem] = field(default_factory=list)


def clean_text(text: str) -> str:
    """A text without BOM, control characters and lone surrogates, with LF line ends; else as it is."""
    text = text.lstrip("\ufeff")
    if _ANY_UNWANTED.search(text):
        text = _TERMINAL_SEQUENCE.sub("", text)
        text = _LINE_ENDS.sub("\n", text)
        text = _CONTROLS.sub("", text)
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def decode(data: bytes, setting: str | None = None, declared: str | None = None) -> Decoded:
    """Decode the bytes of a text file.

    Args:
        data: Whole content of the file.
        setting: Encoding that the user set for all files (a BOM wins over it); None: detect.
        declared: Encoding that the file itself declares, as HTML does; valid UTF-8 wins over it.

    Raises:
        NotTextError: The bytes are no text, or in no encoding that could be found.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _lenient(data[len(bom) :], encoding)
    for signature, what in _SIGNATURES:
        if data.startswith(signature):
            raise NotTextError("binary", f"the content is {what}, not text")
    if setting:
        return _as_set(data, setting)
    if (wide := _utf16_by_zeros(data)) is not None:
        return _lenient(data, wide)
    text = _strict(data, "utf-8")
    if text is not None:
        return _valid_utf8(data, text)
    if declared and (known := _codec(declared)) and (text := _strict(data, known)) is not None:
        return Decoded(clean_text(text), known)
    return _not_utf8(data)


def _valid_utf8(data: bytes, text: str) -> Decoded:
    if b"\x1b$" in data and data.isascii() and (japanese := _strict(data, "iso2022_jp")) is not None:
        return Decoded(clean_text(japanese), "iso2022_jp")
    if _control_share(data) > _CONTROL_SHARE_UTF8:
        return _utf16_or_binary(data)
    return Decoded(clean_text(text), "utf-8")


def _utf16_or_binary(data: bytes) -> Decoded:
    """Many control bytes: the upper halves of UTF-16 characters, or no text."""
    guess = guess_utf16(data)
    if guess is not None and guess.score >= _SURE_SCORE - 0.1:
        return _lenient(data, guess.encoding)
    raise NotTextError("binary", f"{_control_share(data):.0%} of the bytes are control characters, as in binary data")


def _not_utf8(data: bytes) -> Decoded:
    """Damaged UTF-8, an older encoding, or no text."""
    escaped = data.decode("utf-8", "surrogateescape")
    n_bad = len(_ESCAPED_BYTES.findall(escaped))
    n_high = len(data) - len(data.translate(None, _HIGH_BYTES))
    if n_bad <= _BAD_SHARE_OF_HIGH * n_high:
        return _lenient(data, "utf-8")
    if _control_share(data) > _CONTROL_SHARE:
        return _utf16_or_binary(data)
    guesses = guess_encodings(data)
    # A few wrong bytes in a long text may as well be damage: then the guess must be good.
    few = n_bad <= _BAD_SHARE * len(data)
    for i, guess in enumerate(guesses):
        if guess.score < (_SURE_SCORE if few else _LEAST_SCORE):
            break
        text = _strict(data, guess.encoding)
        if text is not None:
            return Decoded(clean_text(text), guess.encoding, _doubts(guess, guesses[i + 1 :]))
    if few:
        return _lenient(data, "utf-8")
    best = guesses[0].encoding if guesses else "none"
    raise NotTextError(
        "encoding",
        f"not UTF-8 ({n_bad} wrong bytes), and no other encoding gives readable text (nearest: {best}); "
        "save the file as UTF-8, or set input.encoding",
    )


def _doubts(guess: Guess, others: list[Guess]) -> list[Problem]:
    """A report where another encoding reads about as well, or none reads well."""
    near = [other for other in others[:_RIVALS] if advantage(guess, other) < _SURE_ADVANTAGE]
    if guess.score >= _SURE_SCORE and not near:
        return []
    other = f", {near[0].encoding} reads nearly as well" if near else ""
    return [
        Problem(
            "",
            "encoding_doubtful",
            f"read as {guess.encoding} by its letters, without certainty (score {guess.score:.2f}{other}); "
            "save the file as UTF-8, or set input.encoding",
        )
    ]


def _as_set(data: bytes, setting: str) -> Decoded:
    encoding = _codec(setting)
    if encoding is None:
        raise NotTextError(
            "encoding", f"input.encoding {setting!r} is no encoding that Python knows; try utf-8 or cp1252"
        )
    text = _strict(data, encoding)
    if text is not None:
        if _control_share(data) > _CONTROL_SHARE_UTF8 and not encoding.startswith(("utf-16", "utf-32")):
            raise NotTextError(
                "binary", f"{_control_share(data):.0%} of the bytes are control characters, as in binary data"
            )
        return Decoded(clean_text(text), encoding)
    decoded = _lenient(data, encoding)
    if decoded.text.count("\ufffd") > max(3, 0.01 * len(decoded.text)):
        raise NotTextError(
            "encoding", f"not {encoding}, which input.encoding says; leave input.encoding unset to detect it"
        )
    return decoded


def _codec(name: str) -> str | None:
    """Python name of an encoding as files declare it; None where Python has none that decodes text."""
    try:
        info = codecs.lookup(name.strip().strip("\"'"))
    except (LookupError, ValueError):
        return None
    if not getattr(info, "_is_text_encoding", True) or info.name in (
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
    ):
        return None
    return _MEANS_WINDOWS.get(info.name, info.name)


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _lenient(data: bytes, encoding: str) -> Decoded:
    """Decode; wrong bytes become U+FFFD and are reported with their places."""
    text = _strict(data, encoding)
    if text is not None:
        return Decoded(clean_text(text), encoding)
    try:
        text = data.decode(encoding, "surrogateescape")
        bad = [match.start() for match in _ESCAPED_BYTES.finditer(text)]
        text = _ESCAPED_BYTES.sub("\ufffd", text)
    except UnicodeDecodeError:  # encodings whose units are wider than a byte
        text = data.decode(encoding, "replace")
        bad = [match.start() for match in re.finditer("\ufffd", text)]
    lines = _lines(text, bad)
    places = ", ".join(map(str, lines[:_PLACES])) + (", …" if len(lines) > _PLACES else "")
    problem = Problem(
        f"line {lines[0]}" if lines else "",
        "invalid_bytes",
        f"{len(bad)} bytes are not valid {encoding} (line {places}) and were replaced by U+FFFD; mend the file, or set "
        "input.encoding if it is in another encoding",
    )
    return Decoded(clean_text(text), encoding, [problem])


def _lines(text: str, places: list[int]) -> list[int]:
    """Numbers of the lines (from 1) at ascending places of a text, each once."""
    lines: list[int] = []
    line, counted = 1, 0
    for place in places:
        line += text.count("\n", counted, place)
        counted = place
        if not lines or lines[-1] != line:
            lines.append(line)
    return lines


def _control_share(data: bytes) -> float:
    """Share of control bytes that text does not hold."""
    return 1 - len(data.translate(None, _CONTROL_BYTES)) / len(data) if data else 0.0


def _utf16_by_zeros(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a BOM, seen by its zero bytes, which stand at even or at odd places only."""
    head = data[: 65_536 // 4 * 4]
    if len(head) < 4 or head.count(0) < 0.1 * len(head):
        return None
    for encoding, zeros in (("utf-32-le", (2, 3)), ("utf-32-be", (0, 1))):
        if all(head[i::4].count(0) > 0.95 * len(head[i::4]) for i in zeros) and _strict(data, encoding) is not None:
            return encoding
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > 20 * even:
        return "utf-16-le"
    if even > 20 * odd:
        return "utf-16-be"
    return None
