"""Words by which models call the parts of what they were asked for, in the languages that they fall into.

A prompt asks for ``name``, ``type``, ``source`` and so on; what comes is ``entityName``, ``Source Entity``, ``src``, or
the word in the language of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_NO_WORD = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"(?<=[^\W\d])\s?\d+$")

#: What a record is, by the words for it, as :func:`key` writes them.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        [
            "entity",
            "entities",
            "entidad",
            "entidades",
            "entité",
            "entités",
            "entität",
            "entitäten",
            "entidade",
            "entità",
            "entiteit",
            "сущность",
            "сущности",
            "объект",
            "エンティティ",
            "实体",
            "實體",
            "엔티티",
            "개체",
            "كيان",
            "كيانات",
            "node",
            "nodes",
            "vertex",
            "vertices",
            "ent",
        ],
        "entity",
    ),
    **dict.fromkeys(
        [
            "relationship",
            "relationships",
            "relation",
            "relations",
            "relación",
            "relaciones",
            "beziehung",
            "beziehungen",
            "relação",
            "relações",
            "relacionamento",
            "relacionamentos",
            "relazione",
            "relazioni",
            "relatie",
            "связь",
            "связи",
            "отношение",
            "отношения",
            "関係",
            "关系",
            "關係",
            "관계",
            "علاقة",
            "علاقات",
            "edge",
            "edges",
            "link",
            "links",
            "rel",
        ],
        "relationship",
    ),
    **dict.fromkeys(
        [
            "claim",
            "claims",
            "covariate",
            "声明",
            "主张",
            "聲明",
            "主張",
            "afirmación",
            "afirmaciones",
            "behauptung",
            "allégation",
            "affirmation",
            "утверждение",
            "주장",
        ],
        "claim",
    ),
}

_ROLES: Mapping[str, str] = {
    "name": """name title id label entity node term
        nombre nom nome naam имя название 名称 名稱 名字 名前 名 이름 الاسم اسم 实体 實體 实体名 实体名称 實體名稱 エンティティ""",
    "type": """type category class kind types group
        tipo categoría catégorie typ kategorie categoria тип категория 类型 類型 类别 類別 種類 タイプ 유형 종류 نوع النوع""",
    "description": """description desc details detail text summary explanation reason relation relationship
        descripción descripcion beschreibung descrição descricao descrizione описание 描述 説明 说明 설명 وصف الوصف 关系 关系描述
        解释 理由""",
    "source": """source src from subject head start node1 entity1 source1 source id from node from entity first entity
        origen quelle origem fonte origine источник от 源 源实体 来源 來源 起点 出典 ソース 始点 출처 المصدر 头实体 主体""",
    "target": """target dst dest destination to object tail end node2 entity2 target id to node to entity second entity
        destino objetivo ziel cible obiettivo alvo цель к 目标 目標 目标实体 目標實體 终点 ターゲット 終点 대상 목표 الهدف 尾实体 客体""",
    "weight": """weight strength score importance rating confidence
        fuerza peso stärke staerke gewicht force poids força forza вес сила 强度 強度 权重 關係強度 关系强度 重み 강도 가중치 قوة""",
}
_ROLE: dict[str, str] = {}
for _role, _words in _ROLES.items():
    for _word in _words.split():
        _ROLE.setdefault(_word, _role)
#: Words before a role that say no more than where it belongs: entity type, relationship strength, 实体类型.
_OF_RECORD = re.compile(
    r"(?:entity|node|relationship|relation|edge|link|实体|關係|关系|實體|エンティティ|関係|엔티티|관계)(?:\s+|(?=[^\sa-z]))"
)
_ENDS = re.compile(
    r"(?P<end>source|target|src|dst|from|to|first|second|源|目标|目標)\s*(?:entity|node|name|id|实体|實體| )+"
)


@lru_cache(maxsize=4096)
def key(text: str) -> str:
    """A key as words in small letters: ``sourceEntity``, ``Source_Entity`` and ``**source entity**`` are one."""
    text = unicodedata.normalize("NFKC", text) if not text.isascii() else text
    return " ".join(_NO_WORD.sub(" ", _CAMEL.sub(" ", text)).casefold().split())


@lru_cache(maxsize=4096)
def role(text: str) -> str | None:
    """The part of a record that a key names: name, type, description, source, target, weight; None for another."""
    words = key(text)
    if words in _ROLE:
        return _ROLE[words]
    if ends := _ENDS.fullmatch(f"{words} "):
        return _ROLE.get(ends["end"]) or {"first": "source", "second": "target"}.get(ends["end"])
    rest = _OF_RECORD.sub("", words, count=1)
    return _ROLE.get(rest) or _ROLE.get(rest.removesuffix(" name"))


@lru_cache(maxsize=4096)
def kind(text: str) -> str | None:
    """What a word or a heading says that follows: entity, relationship, claim; None for another word.

    Numbers and words such as record or list beside it are left out: ``Entity 3``, ``1. Extracted entities``.
    """
    words = _NUMBER.sub("", key(text))
    if words in KINDS:
        return KINDS[words]
    left = [word for word in words.split() if word not in _BESIDE and not word.isdigit()]
    return KINDS.get(left[0]) if len(left) == 1 else None


_BESIDE = frozenset(
    [
        "record",
        "records",
        "list",
        "extracted",
        "identified",
        "the",
        "of",
        "all",
        "and",
        "named",
        "found",
        "key",
        "main",
        "table",
        "step",
        "part",
        "output",
    ]
)
