"""Forms of questions about entities, relationships and reports, by language."""

from __future__ import annotations

from collections.abc import Mapping

ENTITY, RELATION, REPORT = "entity", "relation", "report"

_FORMS: dict[str, tuple[str, str, str]] = {
    "en": (
        "What do the documents say about {a}?",
        "How are {a} and {b} related?",
        "What is known about “{a}”?",
    ),
    "de": (
        "Was sagen die Dokumente über {a}?",
        "In welcher Beziehung stehen {a} und {b}?",
        "Was ist über „{a}“ bekannt?",
    ),
    "fr": (
        "Que disent les documents sur {a} ?",
        "Quel est le lien entre {a} et {b} ?",
        "Que sait-on de « {a} » ?",
    ),
    "es": (
        "¿Qué dicen los documentos sobre {a}?",
        "¿Qué relación hay entre {a} y {b}?",
        "¿Qué se sabe de «{a}»?",
    ),
    "it": (
        "Che cosa dicono i documenti su {a}?",
        "Che relazione c'è tra {a} e {b}?",
        "Che cosa si sa di «{a}»?",
    ),
    "pt": (
        "O que dizem os documentos sobre {a}?",
        "Qual é a relação entre {a} e {b}?",
        "O que se sabe sobre “{a}”?",
    ),
    "nl": (
        "Wat zeggen de documenten over {a}?",
        "Wat is het verband tussen {a} en {b}?",
        "Wat is er bekend over “{a}”?",
    ),
    "ru": (
        "Что говорится в документах о «{a}»?",
        "Как связаны «{a}» и «{b}»?",
        "Что известно о «{a}»?",
    ),
    "ja": (
        "{a}について文書には何が書かれていますか？",
        "{a}と{b}の関係は何ですか？",
        "「{a}」について何が分かっていますか？",
    ),
    "zh": (
        "文档中关于{a}说了什么？",
        "{a}和{b}之间是什么关系？",
        "关于“{a}”已知什么？",
    ),
}


def templates(language: str) -> Mapping[str, str]:
    """The forms in a language (ISO 639-1, also with a region); English where there are none."""
    forms = _FORMS.get(language.lower().replace("_", "-").split("-", 1)[0], _FORMS["en"])
    return dict(zip((ENTITY, RELATION, REPORT), forms, strict=True))
