"""Words by which models call the parts of a claim and its status, in the languages that they fall into."""

from __future__ import annotations

import re
from functools import lru_cache

from graphrag_assets.text.names import canonical_title
from graphrag_assets.text.record_words import key

#: Parts of a claim in the order of its record.
PARTS = ("subject", "object", "type", "status", "start", "end", "description", "quote")

_ROLES = {
    "subject": """subject|subject entity|entity|entity name|name|about|who|accused|claimant|sujeto|entidad|sujet|entité|
        subjekt|soggetto|sujeito|субъект|сущность|主体|主語|主语|主題|실체|주체|الموضوع|实体""",
    "object": """object|object entity|target|target entity|affected|affected entity|objeto|objet|objekt|oggetto|объект|
        客体|对象|對象|宾语|対象|目的語|객체|대상|المفعول""",
    "type": """type|claim type|category|claim category|kind|class|tipo|categoría|typ|kategorie|categoria|catégorie|тип|
        категория|类型|類型|类别|種類|タイプ|유형|النوع""",
    "status": """status|claim status|verdict|truth|truth value|truth status|veracity|state|is true|estado|état|statut|stato|
        wahrheitsgehalt|статус|状态|狀態|状況|状態|ステータス|상태|الحالة""",
    "start": """start|start date|claim start date|from|since|begin|begin date|start time|fecha de inicio|inicio|début|
        date de début|beginn|anfang|startdatum|data di inizio|inizio|data de início|início|начало|дата начала|开始|開始|
        开始日期|开始时间|開始日|시작|시작일|البداية""",
    "end": """end|end date|claim end date|to|until|till|end time|fecha de fin|fin|date de fin|ende|enddatum|data di fine|
        fine|data de fim|fim|конец|дата окончания|окончание|结束|結束|结束日期|结束时间|終了|終了日|종료|종료일|النهاية""",
    "period": """date|dates|claim date|claim dates|period|time|time period|time range|when|fecha|fechas|zeitraum|datum|
        période|periodo|período|дата|период|日期|时间|時間|期間|기간|날짜""",
    "description": """description|claim description|claim|claim text|statement|details|detail|explanation|summary|desc|
        descripción|afirmación|beschreibung|behauptung|descrizione|descrição|affirmation|описание|утверждение|描述|説明|说明|
        主张|声明|설명|주장|الوصف""",
    "quote": """quote|quotes|quotation|source text|claim source text|source|source quote|source quotes|sources|evidence|
        original text|supporting text|excerpt|text|cita|texto fuente|zitat|beleg|quelltext|citation|extrait|texte source|
        citazione|citação|цитата|источник|исходный текст|原文|引用|引文|来源|來源|出典|인용|원문|الاقتباس""",
}
_ROLE = {word.strip(): part for part, words in _ROLES.items() for word in words.split("|")}

_STATUSES = {
    "TRUE": """TRUE|CONFIRMED|VERIFIED|YES|PROVEN|T|真|是|真实|确认|属实|事实|真実|正しい|確認済み|참|사실|VERDADERO|CIERTO|CONFIRMADO|
        VERDADEIRO|VRAI|CONFIRMÉ|VÉRIFIÉ|WAHR|BESTÄTIGT|VERO|CONFERMATO|ИСТИНА|ПРАВДА|ВЕРНО|ПОДТВЕРЖДЕНО|صحيح""",
    "FALSE": """FALSE|REFUTED|UNTRUE|DENIED|NO|DISPROVEN|F|假|否|错误|虚假|偽|虚偽|誤り|거짓|FALSO|FAUX|RÉFUTÉ|FALSCH|WIDERLEGT|
        ЛОЖЬ|ЛОЖНО|НЕВЕРНО|ОПРОВЕРГНУТО|خطأ""",
    "SUSPECTED": """SUSPECTED|SUSPECT|ALLEGED|UNVERIFIED|UNCONFIRMED|POSSIBLE|LIKELY|PENDING|UNCERTAIN|SUSPICION|DISPUTED|怀疑|
        疑似|可能|存疑|懷疑|疑い|疑惑|疑わしい|의심|추정|SOSPECHADO|SOSPECHOSO|PRESUNTO|SUSPEITO|SUSPEITADO|SOUPÇONNÉ|PRÉSUMÉ|SUSPECTÉ|
        VERMUTET|VERDÄCHTIG|MUTMASSLICH|MUTMAẞLICH|SOSPETTO|SOSPETTATO|PRESUNTO|ПРЕДПОЛАГАЕТСЯ|ПОДОЗРЕНИЕ|ПОДОЗРЕВАЕТСЯ|مشتبه""",
}
_STATUS = {word.strip(): name for name, words in _STATUSES.items() for word in words.split("|")}
_LONGEST = 80
_EXPLAINED = re.compile(r"\s*[(（\[].{0,60}[)）\]]?$|\s+[-–—]\s+.*$")
_NAMED = re.compile(r"(?P<name>[^\W\d][\w ]{0,24}?)\s*[:：=]\s*(?P<word>\S.*)", re.DOTALL)


@lru_cache(maxsize=4096)
def claim_role(text: str) -> str | None:
    """The part of a claim that a key names: one of :data:`PARTS`, or period (both dates); None for another key."""
    words = key(text)
    return _ROLE.get(words) or _ROLE.get(words.removeprefix("claim ")) or _ROLE.get(words.removesuffix(" name"))


@lru_cache(maxsize=4096)
def claim_status(text: str) -> str | None:
    """TRUE, FALSE or SUSPECTED; None when the text is no status.

    Reads ``TRUE``, ``**False**``, ``Status: TRUE``, ``suspected (not proven)`` and the words of other languages.
    """
    if len(text) > _LONGEST:
        return None
    if (named := _NAMED.fullmatch(text.strip(" \"'*"))) and claim_role(named["name"]) == "status":
        text = named["word"]
    title = canonical_title(text).strip("*_`'\".。()[]{}<>《》$ ")
    return _STATUS.get(title) or _STATUS.get(_EXPLAINED.sub("", title).strip("*_`'\". "))
