"""The language of short texts: a guess without evidence would send a text to the wrong analysis."""

from __future__ import annotations

import pyarrow as pa
import pytest

from graphrag_assets.input.inventory import common_language
from graphrag_assets.input.language import detect_language

#: Short sentences by language, as notes, headings, rows of a table and messages have them.
SENTENCES: dict[str, tuple[str, ...]] = {
    "en": (
        "Alice met Bob in Paris.",
        "Marie Curie won two Nobel Prizes.",
        "Berlin is in Germany.",
        "Tim Cook runs Apple.",
        "Anna works with Ben in Berlin.",
        "The meeting is at noon.",
        "Ben Okri lives in London now.",
        "Rain is expected over Wales.",
        "Dr. Hans de Vries died in 1912.",
        "Order 66 shipped on Monday.",
        "Sales went up in May.",
        "Water pump 4 is broken again.",
        "Van Gogh painted Sunflowers in Arles.",
        "Acme Corp hired Dana Reyes.",
        "Call me when the train is late.",
        "Jan de Wit is our new manager.",
        "My dog ate my homework.",
        "We met in Oslo in June.",
        "Send her the form by Friday.",
        "Ada wrote a letter to Charles Babbage.",
        "Our plant in Lima makes bricks.",
        "Who owns Harbour Wind?",
        "Skua is a wind farm.",
        "He is as old as I am.",
        "Leonardo da Vinci painted Mona Lisa.",
        "Dinner at eight, do not be late.",
        "Invoice paid in full by Carrow Metals.",
        "Is Tom at home?",
        "Plan B: stay in Rome.",
        "Hotel Gran Via, room 12, two nights.",
        "El Paso is in Texas.",
        "Santa Cruz de la Sierra is in Bolivia.",
        "Los Angeles and San Francisco are in California.",
        "She is on leave till June.",
        "Wind turbines stand still in calm weather.",
        "Man bites dog.",
        "Bell Labs invented the transistor in 1947.",
        "Kenji Sato founded Minato Robotics in Osaka.",
        "Die cast parts arrive in May.",
        "Op amp circuits hum at night.",
        "Maske had the keys.",
        "Elin Lindqvist designed the tower.",
        "Robots weld car doors.",
        "Was Lena here?",
        "No man is an island.",
        "On time. In budget. As planned.",
        "Hello world, this is a test.",
        "Just a short note about Zurich.",
        "Contract signed. Two copies sent.",
        "Gold rose; silver fell.",
    ),
    "de": (
        "Anna wohnt in Berlin.",
        "Der Vertrag wurde am Montag unterschrieben.",
        "Die Firma Siemens baut in München.",
        "Das ist nicht mein Hund.",
        "Wir treffen uns um acht am Bahnhof.",
        "Hans ist krank und bleibt zu Hause.",
        "Die Brücke über den Fluss ist gesperrt.",
        "Angela Merkel war Kanzlerin.",
        "Der Zug nach Köln hat Verspätung.",
        "Es gibt heute keine Milch.",
    ),
    "fr": (
        "Victor Hugo habite à Paris.",
        "Le train part de Lyon à midi.",
        "Marie est malade et reste à la maison.",
        "La réunion est reportée à lundi.",
        "Nous avons signé le contrat avec Renault.",
        "Le pont sur la rivière est fermé.",
        "Il y a du pain dans la cuisine.",
        "Les élèves ont quitté l'école.",
    ),
    "es": (
        "Ana vive en Madrid con su hermana.",
        "El tren sale de Sevilla a las ocho.",
        "La reunión es el lunes.",
        "No hay leche en la cocina.",
        "Los niños juegan en el parque.",
        "Firmamos el contrato con Telefónica.",
        "El puente sobre el río está cerrado.",
    ),
    "it": (
        "Anna abita a Roma con il fratello.",
        "Il treno per Milano parte alle otto.",
        "La riunione è lunedì.",
        "Non c'è latte nella cucina.",
        "Il ponte sul fiume è chiuso.",
        "Abbiamo firmato il contratto con la Fiat.",
    ),
    "pt": (
        "A Ana mora em Lisboa com a irmã.",
        "O trem para o Porto parte às oito.",
        "A reunião é na segunda-feira.",
        "Não há leite na cozinha.",
        "A ponte sobre o rio está fechada.",
    ),
    "nl": (
        "Anna woont in Amsterdam met haar zus.",
        "De trein naar Utrecht heeft vertraging.",
        "De vergadering is op maandag.",
        "Er is geen melk in de keuken.",
        "De brug over de rivier is dicht.",
        "Wij hebben het contract met Philips getekend.",
        "Dat is niet mijn hond.",
    ),
    "sv": (
        "Anna bor i Stockholm med sin syster.",
        "Tåget till Malmö är försenat.",
        "Mötet är på måndag.",
        "Det finns ingen mjölk i köket.",
        "Bron över ån är stängd.",
    ),
    "da": ("Anna bor i Aarhus med sin søster.", "Toget til Odense er forsinket.", "Der er ikke mere mælk i køkkenet."),
    "fi": ("Anna asuu Helsingissä.", "Juna on myöhässä.", "Kokous on maanantaina.", "Keittiössä ei ole maitoa."),
    "pl": ("Anna mieszka w Krakowie z siostrą.", "Pociąg do Warszawy jest opóźniony.", "Nie ma mleka w kuchni."),
    "cs": ("Anna bydlí v Praze se sestrou.", "Vlak do Brna má zpoždění.", "V kuchyni není žádné mléko."),
    "hu": ("Anna Budapesten él a húgával.", "A vonat késik.", "Nincs tej a konyhában."),
    "tr": ("Anna kız kardeşi ile Ankara'da yaşıyor.", "Tren geç kaldı.", "Mutfakta hiç süt yok."),
    "ro": ("Ana locuiește în București cu sora ei.", "Trenul spre Cluj are întârziere.", "Nu este lapte în bucătărie."),
    "af": ("Anna woon saam met haar suster in Kaapstad.", "Die trein na Pretoria is laat.", "Daar is nie melk nie."),
    "id": ("Anna tinggal di Jakarta dengan adiknya.", "Kereta ke Bandung terlambat.", "Tidak ada susu di dapur."),
    "ru": ("Анна живёт в Москве с сестрой.", "Поезд опаздывает.", "На кухне нет молока."),
    "uk": ("Анна живе в Києві з сестрою.", "На кухні немає молока, і хліба теж."),
    "el": ("Η Άννα μένει στην Αθήνα.",),
    "ja": ("アンナは東京に住んでいます。",),
    "zh": ("安娜住在北京。",),
    "ko": ("안나는 서울에 산다.",),
}


@pytest.mark.parametrize("language", sorted(SENTENCES))
def test_short_sentences_are_not_taken_for_another_language(language: str) -> None:
    wrong = {text: found for text in SENTENCES[language] if (found := detect_language(text)) not in ("", language)}
    assert not wrong


def test_a_short_text_with_evidence_is_told() -> None:
    """Unsure is no excuse: of the sentences above, a fair share is told."""
    texts = [(language, text) for language, found in SENTENCES.items() for text in found]
    right = sum(detect_language(text) == language for language, text in texts)
    assert right >= len(texts) / 3


def test_a_longer_text_is_told() -> None:
    for language in ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl"):
        assert detect_language(" ".join(SENTENCES[language])) == language


@pytest.mark.parametrize(
    ("languages", "common"),
    [(["en", "en", "de", ""], "en"), (["en", "de", ""], ""), (["", ""], ""), ([], ""), (["", "", "", "de"], "de")],
)
def test_the_language_of_most_documents(languages: list[str], common: str) -> None:
    assert common_language(pa.table({"language": pa.array(languages, pa.string())})) == common
