"""Encodings are found or reported, never wrong in silence."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.input.encodings import NotTextError, clean_text, decode
from graphrag_assets.input.language import detect_language

# Sentences written for this test.
TEXTS = {
    "de": (
        "Über den Dächern der alten Stadt hörte man früh am Morgen die Glocken läuten, und die Männer "
        "gingen zur Brücke. Größere Schiffe müssen dort warten, bis das Wasser hoch genug für die "
        "Durchfahrt ist."
    ),
    "fr": (
        "L'été dernier, le préfet a déclaré que la rivière était à nouveau navigable. Les pêcheurs du "
        "hameau, eux, n'en étaient guère persuadés : où étaient passées les truites, et pourquoi l'eau "
        "avait-elle cette couleur étrange ?"
    ),
    "pl": (
        "Późną jesienią mieszkańcy miasteczka zobaczyli, że most został już zamknięty. Wójt powiedział, "
        "że się nie śpieszy, bo pieniądze przyjdą dopiero w przyszłym roku, ale ludzie mu nie wierzą. "
        "Każdy z nich musi chodzić dłuższą drogą przez las."
    ),
    "cs": (
        "Když se v létě vrátili domů, zjistili, že řeka změnila svůj tok a že původní most už není k "
        "ničemu. Starosta řekl, že příští rok bude postaven nový, ale nikdo mu nevěřil, protože peníze "
        "chyběly už dříve."
    ),
    "hu": (
        "A falu lakói úgy döntöttek, hogy az őszi esők előtt megerősítik a gátat, mert a folyó minden "
        "évben több földet visz el. Nem volt könnyű, de végül a szükséges pénzt is összegyűjtötték, és "
        "az erdőből követ hordtak."
    ),
    "tr": (
        "Köyün yaşlıları, köprünün bu kış da dayanacağını söylüyor, ancak gençler buna inanmıyor. Geçen "
        "yıl su çok yükseldi ve bir değirmen yıkıldı; bu yüzden herkes için yeni bir yol yapılması "
        "gerektiği düşünülüyor."
    ),
    "ru": (
        "Прошлой осенью жители посёлка узнали, что старый мост закрыт и что новый построят не раньше "
        "весны. Председатель обещал, что деньги найдутся, но люди ему не поверили и стали ходить через "
        "лес, хотя это дольше и опаснее."
    ),
    "uk": (
        "Минулої осені мешканці селища дізналися, що старий міст закрито і що новий збудують не раніше "
        "весни. Голова обіцяв, що гроші знайдуться, але люди йому не повірили і почали ходити через ліс, "
        "хоч це й довше."
    ),
    "el": (
        "Το περασμένο φθινόπωρο οι κάτοικοι του χωριού έμαθαν ότι η παλιά γέφυρα έκλεισε και ότι η "
        "καινούργια θα χτιστεί την άνοιξη. Ο πρόεδρος υποσχέθηκε ότι τα χρήματα θα βρεθούν, αλλά κανείς "
        "δεν τον πίστεψε."
    ),
    "he": (
        "בסתיו שעבר נודע לתושבי הכפר כי הגשר הישן נסגר וכי גשר חדש ייבנה רק באביב. ראש המועצה הבטיח "
        "שהכסף יימצא, אבל איש לא האמין לו, והאנשים החלו ללכת דרך היער אף שהדרך ארוכה יותר."
    ),
    "ar": (
        "في الخريف الماضي علم سكان القرية أن الجسر القديم قد أغلق وأن الجسر الجديد لن يبنى قبل الربيع. "
        "وعد رئيس البلدية بأن المال سيوجد، ولكن الناس لم يصدقوه وبدأوا يمشون عبر الغابة مع أن الطريق "
        "أطول."
    ),
    "ja": (
        "去年の秋、村の人々は古い橋が閉じられ、新しい橋は春まで作られないことを知った。村長はお金は見つかると"
        "言ったが、誰も信じなかった。人々は森の中の道を歩くようになったが、それは長くて危ない道だった。"
    ),
    "ko": (
        "지난 가을 마을 사람들은 오래된 다리가 닫혔고 새 다리는 봄이 되어야 지어진다는 것을 알게 "
        "되었다. 이장은 돈을 찾을 것이라고 말했지만 아무도 그를 믿지 않았다. 사람들은 숲을 "
        "지나는 길로 다니기 시작했다."
    ),
    "zh": (
        "去年秋天，村里的人知道了老桥已经关闭，新的桥要到春天才能开始建。村长说钱一定会有的，可是没有人相信他"
        "。大家只好从树林里走，虽然那条路又长又不安全，但是他们没有别的办法。"
    ),
}
ENCODED = [
    *[("de", e) for e in ("cp1252", "latin-1", "iso8859-15", "cp850", "mac-roman")],
    *[("fr", e) for e in ("cp1252", "latin-1", "cp850", "mac-roman")],
    *[("pl", e) for e in ("cp1250", "iso8859-2", "cp852")],
    *[("cs", e) for e in ("cp1250", "iso8859-2", "cp852")],
    *[("hu", e) for e in ("cp1250", "iso8859-2")],
    *[("tr", e) for e in ("cp1254", "iso8859-9")],
    *[("ru", e) for e in ("cp1251", "koi8-r", "iso8859-5", "cp866", "mac-cyrillic")],
    *[("uk", e) for e in ("cp1251", "koi8-u")],
    *[("el", e) for e in ("cp1253", "iso8859-7")],
    *[("he", e) for e in ("cp1255", "iso8859-8")],
    *[("ar", e) for e in ("cp1256", "iso8859-6")],
    *[("ja", e) for e in ("cp932", "euc_jp", "iso2022_jp")],
    ("ko", "cp949"),
    *[("zh", e) for e in ("gb18030", "gbk")],
]


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
def test_older_encodings_are_found(language: str, encoding: str) -> None:
    text = TEXTS[language]
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert detect_language(decoded.text) == language


@pytest.mark.parametrize("language", sorted(TEXTS))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings(language: str, encoding: str) -> None:
    decoded = decode(TEXTS[language].encode(encoding))
    assert decoded.text == TEXTS[language]
    assert decoded.problems == []


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
@pytest.mark.parametrize("length", [20, 60])
def test_no_wrong_guess_in_silence_on_short_texts(language: str, encoding: str, length: int) -> None:
    text = TEXTS[language][:length]
    try:
        decoded = decode(text.encode(encoding))
    except NotTextError:
        return
    assert decoded.text == text or decoded.problems, f"read as {decoded.encoding}: {decoded.text}"


def test_the_setting_wins_over_detection_and_a_bom_over_the_setting() -> None:
    assert decode("naïve".encode("cp1250", "replace"), "cp1250").encoding == "cp1250"
    assert decode("ñ".encode("cp1252"), "cp1252").text == "ñ"
    assert decode("ñ".encode("utf-8-sig"), "cp1252").text == "ñ"


def test_a_setting_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(NotTextError, match=r"input\.encoding"):
        decode(TEXTS["ru"].encode("cp1251"), "utf-8")
    with pytest.raises(NotTextError, match="klingon"):
        decode(b"abc", "klingon")


def test_a_declaration_counts_unless_the_bytes_are_utf8() -> None:
    assert decode("café".encode("cp1252"), declared="iso-8859-1").text == "café"
    assert decode("café".encode(), declared="iso-8859-1").text == "café"
    assert decode("“quoted”".encode("cp1252"), declared="ISO-8859-1").text == "“quoted”"
    assert decode("café".encode(), declared="no-such-charset").text == "café"


def test_a_few_wrong_bytes_are_replaced_and_placed() -> None:
    data = b"First line.\n" + "Zweite Zeile: äöü.\n".encode() * 20 + b"Bad \xff\xfe here.\n"
    decoded = decode(data)
    assert decoded.encoding == "utf-8"
    assert "Bad \ufffd\ufffd here" in decoded.text
    assert decoded.problems[0].location == "line 22"
    assert decoded.problems[0].reason == "invalid_bytes"


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 40, b"\x00\x01\x02" * 500, b"%PDF-1.7 abc", b"PK\x03\x04abc", b"\x1f\x8b\x08abc"]
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(NotTextError):
        decode(data)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=200))
def test_utf8_text_is_kept_but_for_what_is_documented(text: str) -> None:
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    assert not any(c < " " and c not in "\n\t" for c in cleaned)
    assert not any("\ud800" <= c <= "\udfff" for c in cleaned)
    if not any(
        c < " " or "\x7f" <= c <= "\x9f" or c in "\ufeff\ufffe\uffff" or "\ud800" <= c <= "\udfff" for c in text
    ):
        assert cleaned == text


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    with contextlib.suppress(NotTextError):
        decode(data).text.encode("utf-8")


def test_clean_text() -> None:
    assert clean_text("\ufeffa\r\nb\rc\n") == "a\nb\nc\n"
    assert clean_text("a\x00b\x1b[31mred\x1b[0m\x0cnext\x85line\x9f") == "abred\nnext\nline"
    assert clean_text("\u00ad\u200bkeep\u202e\ufeff") == "\u00ad\u200bkeep\u202e\ufeff"
    assert clean_text("half \ud83d") == "half \ufffd"
