"""Answers about claims, spoiled: the ways of the graph that fit them, and those of objects, tables and lists of claims."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from random import Random

from tests.unit import bad_answers, worse_answers
from tests.unit.bad_answers import Spoil
from tests.unit.worse_answers import records_of

_PARTS = ("subject", "object", "type", "status", "start", "end", "description", "quote")
_SAMPLE = (
    "(Ada Lamb<|>NONE<|>FRAUD<|>TRUE<|>1998-05-01<|>NONE<|>She lied.<|>she lied)\n##\n"
    "(Bo Lee<|>Ada Lamb<|>THEFT<|>FALSE<|>NONE<|>NONE<|>He stole.<|>he stole)\n<|COMPLETE|>"
)

Claims = list[list[str]]


def claims_of(text: str) -> Claims:
    """The fields of the claims of a good answer."""
    return [fields for kind, fields in records_of(text) if kind == "claim"]


def _fits(spoil: Spoil) -> bool:
    try:
        spoiled = spoil(_SAMPLE, Random(0))
    except (ValueError, IndexError, KeyError):
        return False
    return spoiled != _SAMPLE and "Bo" in spoiled and "stole" in spoiled


def _of(write: Callable[[Claims], str]) -> Spoil:
    return lambda text, chance: write(claims_of(text))


def _objects(claims: Claims, names: tuple[str, ...] = _PARTS) -> list[dict[str, str]]:
    return [dict(zip(names, fields, strict=True)) for fields in claims]


def _json(change: Callable[[list[dict[str, str]]], object], names: tuple[str, ...] = _PARTS) -> Spoil:
    return _of(lambda cs: json.dumps(change(_objects(cs, names)), ensure_ascii=False, indent=1))


def _statuses(true: str, false: str, suspected: str) -> Spoil:
    def spoil(text: str, chance: Random) -> str:
        for word, other in (("TRUE", true), ("FALSE", false), ("SUSPECTED", suspected)):
            text = text.replace(f"<|>{word}<|>", f"<|>{other}<|>")
        return text

    return spoil


def _table(head: str, order: tuple[int, ...] = tuple(range(8)), mark: str = "") -> Spoil:
    columns = head.split("|")
    rule = "|".join("---" for _ in columns)
    return _of(
        lambda cs: "\n".join(
            [f"| {' | '.join(columns)} |", f"|{rule}|"]
            + ["| " + " | ".join(mark + fields[n] + mark for n in order) + " |" for fields in cs]
        )
    )


def _blocks(names: tuple[str, ...], line: str, head: str = "", glue: str = "\n") -> Spoil:
    return _of(
        lambda cs: "\n\n".join(
            head.format(number) + glue.join(line.format(name, field) for name, field in zip(names, fields, strict=True))
            for number, fields in enumerate(cs, 1)
        )
    )


def _xml(fields: list[str]) -> str:
    return "".join(f"<{n}>{html.escape(f, quote=False)}</{n}>" for n, f in zip(_PARTS, fields, strict=True))


def _yaml(claims: Claims) -> str:
    lines = ["claims:"]
    for fields in claims:
        pairs = zip(_PARTS, fields, strict=True)
        lines += [
            ("  - " if n == "subject" else "    ") + f"{n}: {json.dumps(f, ensure_ascii=False)}" for n, f in pairs
        ]
    return "\n".join(lines)


def _by_subject(objects: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for item in objects:
        found.setdefault(item.pop("subject"), []).append(item)
    return found


def _nested_dates(objects: list[dict[str, str]]) -> list[dict[str, object]]:
    return [{**item, "dates": {"start": item.pop("start"), "end": item.pop("end")}} for item in objects]


def _period(objects: list[dict[str, str]], form: str) -> list[dict[str, str]]:
    return [{**item, "claim_date": form.format(item.pop("start"), item.pop("end"))} for item in objects]


_TITLES = ("Subject", "Object", "Claim Type", "Claim Status", "Start Date", "End Date", "Description", "Source Text")
_SNAKE = (
    *("subject_entity", "object_entity", "claim_type", "claim_status", "claim_start_date", "claim_end_date"),
    *("claim_description", "claim_source_text"),
)
_CAMEL = ("subjectEntity", "objectEntity", "claimType", "claimStatus", "startDate", "endDate", "claimDescription")
_CHINESE = ("主体", "客体", "类型", "状态", "开始日期", "结束日期", "描述", "原文")

#: Spoiled forms of answers about claims.
OF_CLAIMS: dict[str, Spoil] = {
    **{
        name: spoil
        for name, spoil in {**bad_answers.OF_TUPLES, **worse_answers.OF_TUPLES}.items()
        if not name.startswith("weights") and "with numbers" not in name and _fits(spoil)
    },
    **{
        f"statuses {words[0]}": _statuses(*words)
        for words in (
            ("True", "False", "Suspected"),
            ("CONFIRMED", "REFUTED", "ALLEGED"),
            ("TRUE (confirmed)", "FALSE (denied)", "SUSPECTED (open)"),
            ("**TRUE**", "**FALSE**", "**SUSPECTED**"),
            ("Status: TRUE", "Status: FALSE", "Status: SUSPECTED"),
            ("verdadero", "falso", "sospechado"),
            ("vrai", "faux", "présumé"),
            ("WAHR", "FALSCH", "VERMUTET"),
            ("истина", "ложь", "предполагается"),
            ("属实", "虚假", "怀疑"),
            ("真実", "虚偽", "疑い"),
            ("참", "거짓", "의심"),
        )
    },
    **{
        f"JSON keys {names[0]}": _json(lambda c: {"claims": c}, names)
        for names in (
            *(_PARTS, _TITLES, _SNAKE, (*_CAMEL, "sourceText"), _CHINESE),
            ("sujeto", "objeto", "tipo", "estado", "fecha de inicio", "fecha de fin", "descripción", "cita"),
            ("Subjekt", "Objekt", "Typ", "Status", "Startdatum", "Enddatum", "Beschreibung", "Zitat"),
            ("sujet", "objet", "type", "statut", "début", "fin", "description", "citation"),
            ("субъект", "объект", "тип", "статус", "начало", "конец", "описание", "цитата"),
            ("主語", "対象", "種類", "状態", "開始", "終了", "説明", "引用"),
            ("entity", "affected_entity", "category", "verdict", "from", "to", "statement", "evidence"),
        )
    },
    "JSON bare list": _json(lambda c: c),
    "JSON one object": _json(lambda c: {f"claim {n}": item for n, item in enumerate(c, 1)}),
    "JSON in an object": _json(lambda c: {"result": {"data": {"claims": c}}}),
    "JSON object each": _json(lambda c: [{"claim": item} for item in c]),
    "JSON lines": _of(lambda cs: "\n".join(json.dumps(item, ensure_ascii=False) for item in _objects(cs))),
    "JSON by subject": _json(_by_subject),
    "JSON claims of a subject": _json(
        lambda c: [{"entity": name, "claims": items} for name, items in _by_subject(c).items()]
    ),
    "JSON dates in an object": _json(_nested_dates),
    "JSON dates in a list": _json(lambda c: [{**i, "dates": [i.pop("start"), i.pop("end")]} for i in c]),
    "JSON period to": _json(lambda c: _period(c, "{} to {}")),
    "JSON period slash": _json(lambda c: _period(c, "{}/{}")),
    "JSON period comma": _json(lambda c: _period(c, "({}, {})")),
    "JSON null": _json(lambda c: [{k: None if v == "NONE" else v for k, v in item.items()} for item in c]),
    "JSON empty": _json(lambda c: [{k: "" if v == "NONE" else v for k, v in item.items()} for item in c]),
    "JSON booleans": _json(
        lambda c: [{**i, "status": {"TRUE": True, "FALSE": False}.get(i["status"], "suspected")} for i in c]
    ),
    "JSON quotes in a list": _json(lambda c: [{**i, "sources": [i.pop("quote")]} for i in c]),
    "JSON tuples": _of(lambda cs: json.dumps({"claims": ["(" + "<|>".join(fields) + ")" for fields in cs]})),
    "JSON fenced": _of(lambda cs: f"Here:\n```json\n{json.dumps({'claims': _objects(cs)})}\n```\nDone."),
    "JSON in single quotes": _of(lambda cs: repr({"claims": _objects(cs)})),
    "JSON in a string": _of(lambda cs: json.dumps(json.dumps(_objects(cs)))),
    "JSON with thoughts": _of(lambda cs: f"<think>hm</think>{json.dumps(_objects(cs))}"),
    "table": _table("Subject|Object|Type|Status|Start|End|Description|Quote"),
    "table of claims": _table("|".join(_TITLES), mark="**"),
    "table in another order": _table(
        "Status|Subject|Description|Object|Claim type|Source text|Start date|End date", (3, 0, 6, 1, 2, 7, 4, 5)
    ),
    "table in Chinese": _table("|".join(_CHINESE)),
    "blocks": _blocks(_TITLES, "{}: {}"),
    "blocks with a head": _blocks(_TITLES, "{}: {}", "Claim {}:\n"),
    "blocks with a heading": _blocks(_TITLES, "**{}:** {}", "### Claim {}\n"),
    "blocks of bullets": _blocks(_TITLES, "- **{}**: {}", "**Claim {}**\n"),
    "numbered blocks": _blocks(_TITLES, "**{}**: {}", "{}. ", "\n   - "),
    "blocks in Chinese": _blocks(_CHINESE, "{}：{}"),
    "blocks of snakes": _blocks(_SNAKE, "{} = {}"),
    "a line each": _blocks(_TITLES, "{}: {}", "- ", ", "),
    "a line each with semicolons": _blocks(_TITLES, "{}: {}", "{}. ", "; "),
    "a line each with bars": _blocks(_TITLES, "{}: {}", "", " | "),
    "named fields": _blocks(_PARTS, "{}: {}", "(", "<|>"),
    "XML": _of(lambda cs: "<claims>\n" + "\n".join(f"<claim>{_xml(f)}</claim>" for f in cs) + "\n</claims>"),
    "XML attributes": _of(
        lambda cs: "\n".join(
            "<claim " + " ".join(f'{n}="{html.escape(f)}"' for n, f in zip(_PARTS, fields, strict=True)) + "/>"
            for fields in cs
        )
    ),
    "YAML": _of(_yaml),
    "CSV with names": _of(lambda cs: worse_answers._csv([(f[0], f[1:]) for f in [list(_SNAKE), *cs]])),
    "CSV in another order": _of(
        lambda cs: worse_answers._csv([(f[3], [f[0], f[6], f[1], f[2], f[7], *f[4:6]]) for f in [list(_SNAKE), *cs]])
    ),
}
