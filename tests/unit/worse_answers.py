"""Answers spoiled worse: other grammars than the one that was asked for, other languages' punctuation, damaged bytes."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from random import Random

from tests.unit.bad_answers import Spoil

#: kind and fields of a record: name, type, description, or source, target, description, weight, or those of a claim.
Records = list[tuple[str, list[str]]]

_END = re.compile(r"\s*<\|COMPLETE\|>\s*$")
_DIGITS = {
    "Arabic": "٠١٢٣٤٥٦٧٨٩",
    "Persian": "۰۱۲۳۴۵۶۷۸۹",
    "Devanagari": "०१२३४५६७८९",
    "full width": "０１２３４５６７８９",
}
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def records_of(text: str) -> Records:
    """The records of a good answer, taken apart."""
    found: Records = []
    for part in re.split(r"\s*##\s*", _END.sub("", text.strip())):
        kind, *fields = part.strip().removeprefix("(").removesuffix(")").split("<|>")
        kind = kind.strip('"')
        fields = [field.strip().strip('"') for field in fields]
        if (kind, len(fields)) in {("entity", 3), ("relationship", 4)}:
            found.append((kind, fields))
        elif len(fields) == 7:
            found.append(("claim", [kind, *fields]))
    return found


def _tuples(records: Records) -> str:
    return "\n##\n".join(f'("{kind}"<|>' + "<|>".join(fields) + ")" for kind, fields in records) + "\n<|COMPLETE|>"


def _again(write: Callable[[Records], str]) -> Spoil:
    return lambda text, chance: write(records_of(text))


def _each(write: Callable[[int, str, list[str]], str], glue: str = "\n", end: str = "\n<|COMPLETE|>") -> Spoil:
    return _again(lambda rs: glue.join(write(n, kind, fields) for n, (kind, fields) in enumerate(rs, 1)) + end)


def _kinds(entity: str, relationship: str) -> Spoil:
    return lambda text, chance: text.replace('"entity"', entity).replace('"relationship"', relationship)


def _weights(form: Callable[[str], str]) -> Spoil:
    return lambda text, chance: re.sub(r"<\|>(\d+)(?:\.\d+)?\)", lambda m: f"<|>{form(m[1])})", text)


def _delimiter(mark: str) -> Spoil:
    return lambda text, chance: text.replace("<|>", mark)


def _separator(mark: str) -> Spoil:
    return lambda text, chance: re.sub(r"\s*##\s*", lambda found: mark, text)


def _sections(
    heads: tuple[str, str], entity: Callable[[list[str]], str], link: Callable[[list[str]], str], glue: str = "\n"
) -> Spoil:
    def write(records: Records) -> str:
        entities = glue.join(entity(f) for kind, f in records if kind == "entity")
        links = glue.join(link(f) for kind, f in records if kind == "relationship")
        return f"{heads[0]}\n{entities}\n\n{heads[1]}\n{links}\n"

    return _again(write)


def _graph(records: Records, names: tuple[str, ...], lists: tuple[str, str] = ("entities", "relationships")) -> dict:
    entities = [dict(zip(names[:3], f, strict=True)) for kind, f in records if kind == "entity"]
    links = [
        dict(zip(names[3:], [*f[:3], _number(f[3])], strict=True)) for kind, f in records if kind == "relationship"
    ]
    return {lists[0]: entities, lists[1]: links}


def _number(text: str) -> float | str:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text


_PLAIN = ("name", "type", "description", "source", "target", "description", "weight")


def _json(change: Callable[[dict], object], names: tuple[str, ...] = _PLAIN, lists=("entities", "relationships")):
    return _again(lambda rs: json.dumps(change(_graph(rs, names, lists)), ensure_ascii=False, indent=1))


def _table(*heads: str) -> Callable[[list[str]], str]:
    return lambda fields: "| " + " | ".join(fields) + " |"


def _flat(records: Records) -> list[dict]:
    graph = _graph(records, _PLAIN)
    return [{"record": "entity", **e} for e in graph["entities"]] + [
        {"record": "relationship", **r} for r in graph["relationships"]
    ]


def _xml(kind: str, fields: list[str]) -> str:
    names = ("name", "type", "description") if kind == "entity" else ("source", "target", "description", "weight")
    inner = "".join(f"<{n}>{html.escape(f, quote=False)}</{n}>" for n, f in zip(names, fields, strict=True))
    return f"<{kind}>{inner}</{kind}>"


def _xml_attributes(kind: str, fields: list[str]) -> str:
    names = ("name", "type", "description") if kind == "entity" else ("source", "target", "description", "weight")
    inner = " ".join(f'{n}="{html.escape(f)}"' for n, f in zip(names, fields, strict=True))
    return f"<{kind} {inner}/>"


def _key_values(kind: str, fields: list[str]) -> str:
    names = ("Name", "Type", "Description") if kind == "entity" else ("Source", "Target", "Description", "Strength")
    return f"{kind.title()}:\n" + "\n".join(f"{n}: {f}" for n, f in zip(names, fields, strict=True)) + "\n"


def _key_values_bullets(kind: str, fields: list[str]) -> str:
    names = ("Entity Type", "Description") if kind == "entity" else ("Target", "Description", "Weight")
    first = "Entity Name" if kind == "entity" else "Source"
    rest = "\n".join(f"  - **{n}**: {f}" for n, f in zip(names, fields[1:], strict=True))
    return f"- **{first}**: {fields[0]}\n{rest}"


def _yaml(records: Records) -> str:
    graph = _graph(records, _PLAIN)
    lines = []
    for key, items in graph.items():
        lines.append(f"{key}:")
        for item in items:
            for n, (name, value) in enumerate(item.items()):
                lines.append(("  - " if n == 0 else "    ") + f"{name}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines)


def _yaml_bare(records: Records) -> str:
    return re.sub(r': "(.*)"$', lambda m: ": " + m[1].replace('\\"', '"'), _yaml(records), flags=re.MULTILINE)


def _csv(records: Records, quote: bool = True, sep: str = ",") -> str:
    lines = []
    for kind, fields in records:
        cells = [kind, *fields]
        lines.append(sep.join('"' + c.replace('"', '""') + '"' if quote else c for c in cells))
    return "\n".join(lines)


def _named_fields(kind: str, fields: list[str]) -> str:
    names = (
        ("entity_name", "entity_type", "entity_description")
        if kind == "entity"
        else ("source_entity", "target_entity", "relationship_description", "relationship_strength")
    )
    return f'("{kind}"<|>' + "<|>".join(f"{n}: {f}" for n, f in zip(names, fields, strict=True)) + ")"


def _twice(text: str, chance: Random) -> str:
    return text + "\n" + text


def _loop(text: str, chance: Random) -> str:
    last = text.split("##")[-1]
    return _END.sub("", text) + "\n##\n" + (_END.sub("", last).strip() + "\n##\n") * 200


#: Spoiled forms of extractions in the tuple format.
OF_TUPLES: dict[str, Spoil] = {
    **{
        f"delimiter {m!r}": _delimiter(m)
        for m in (
            *(
                "<<|>>",
                "<|||>",
                "< || >",
                "[|]",
                "(|)",
                "{|}",
                "<|><|>",
                "<│>",
                "<丨>",
                "<ǀ>",
                "〈|〉",
                "《|》",
                "＜|＞",
            ),
            *("<I>", "<l>", "<｜｜>", "《｜》", "<|tuple_delimiter|>", "{{tuple_delimiter}}", "[tuple_delimiter]"),
            *("<TUPLE_DELIMITER>", "{TUPLE_DELIMITER}", "<|DELIM|>", "<|field|>", "[SEP]", "%%", "@@", "$$", "~~", "~"),
            *(" :: ", " ;; ", "<|>\t", "<|> <|>", "<\\|>", "</|>", "<|/>", "<-|->", "<=>", "<#>", "<*>", "^", "¦", "‖"),
            *(
                "->",
                "→",
                "=>",
                " => ",
                "<|/|>",
                "<||||>",
                "«|»",
                "\\u003c|\\u003e",
                "&lt;&#124;&gt;",
                "<&#124;>",
                "<&vert;>",
            ),
            *(
                "\x1f",
                "\x00",
                "\u2028",
                "<|>\u200b",
                "<\u200b|\u200b>",
                "<\u00a0|\u00a0>",
                "…|…",
                "／",
                "丨",
                "│",
                "|||",
                "<tab>",
            ),
        )
    },
    **{
        f"separator {m!r}": _separator(m)
        for m in (
            *(
                "\n##\n##\n##\n",
                "###",
                "\n# #\n",
                " #\n",
                "\n==\n",
                "\n___\n",
                "\n<hr>\n",
                "<br/>",
                "\\n##\\n",
                "\\n",
                "\r",
                "\x0b",
            ),
            *(
                "\x0c",
                "\u2028",
                "\u2029",
                "\x85",
                "\n\n\n\n",
                "。",
                "、",
                "،",
                "؛",
                "…",
                "|",
                " | ",
                "\n|\n",
                "\n.\n",
                "<record>",
            ),
            *(
                "{RECORD_DELIMITER}",
                "<|record|>",
                "<RECORD_DELIMITER>",
                "{{record_delimiter}}",
                "<|#|>",
                "\n\\##\n",
                "\n**##**\n",
            ),
            *(
                "\n`##`\n",
                "&#35;&#35;",
                "\n﹟﹟\n",
                "\n♯♯\n",
                "\n//\n",
                "\n$$\n",
                "\n@@\n",
                " and ",
                "\nand\n",
                "\n<|>\n",
                "\n~~\n",
            ),
        )
    },
    **{
        f"weights in {name}": _weights(lambda n, d=d: n.translate(str.maketrans("0123456789", d)))
        for name, d in _DIGITS.items()
    },
    **{
        f"weights {f('8')!r}": _weights(f)
        for f in (
            lambda n: f"{n}/10",
            lambda n: f"{n} / 10",
            lambda n: f"{n},0",
            lambda n: f"{n}٫0",
            lambda n: f"{n}．0",
            lambda n: f"~{n}",
            lambda n: f"≈{n}",
            lambda n: f"{n}⭐",
            lambda n: f"{n}分",
            lambda n: f"強度：{n}",
            lambda n: f"强度: {n}",
            lambda n: f"strength={n}",
            lambda n: f"Strength - {n}",
            lambda n: f"relationship_strength = {n}",
            lambda n: f"<{n}>",
            lambda n: f"{{{n}}}",
            lambda n: f"({n})",
            lambda n: f"{n}e0",
            lambda n: f"{n}.",
            lambda n: f"{n}.00",
            lambda n: f"{n} (out of 10)",
            lambda n: f"{n}/10 (high)",
            lambda n: f"{n} points",
            lambda n: f"{n} - strong link",
            lambda n: f"{n}: strong link",
            lambda n: f"high ({n})",
            lambda n: f"'{n}'",
            lambda n: f"“{n}”",
            lambda n: f"*{n}*",
            lambda n: f"`{n}`",
            lambda n: f"${n}$",
            lambda n: f"\\({n}\\)",
            lambda n: f"{n};",
            lambda n: f"{n} ",
            lambda n: f"\u200b{n}",
            lambda n: f"\u00a0{n}\u00a0",
            lambda n: f"{n}/10<|>",
            lambda n: f"Fuerza: {n}",
            lambda n: f"Stärke: {n}",
            lambda n: f"сила: {n}",
            lambda n: f"score of {n}",
            lambda n: f"{n} of 10",
            lambda n: _WORDS[int(n)] if int(n) < 11 else n,
            lambda n: (_WORDS[int(n)].title() + f" ({n})") if int(n) < 11 else n,
        )
    },
    **{
        f"kinds {a}": _kinds(a, b)
        for a, b in (
            ("Entity", "Relationship"),
            ('"ENTITY"', '"RELATION"'),
            ('"entities"', '"relationships"'),
            ('"node"', '"edge"'),
            ('"Node"', '"Relation"'),
            ('"entidad"', '"relación"'),
            ('"entité"', '"relation"'),
            ('"Entität"', '"Beziehung"'),
            ('"entità"', '"relazione"'),
            ('"entidade"', '"relacionamento"'),
            ('"сущность"', '"связь"'),
            ('"Сущность"', '"отношение"'),
            ('"エンティティ"', '"関係"'),
            ('"实体"', '"关系"'),
            ('"實體"', '"關係"'),
            ('"엔티티"', '"관계"'),
            ('"개체"', '"관계"'),
            ('"كيان"', '"علاقة"'),
            ('"entity":', '"relationship":'),
            ("entity:", "relationship:"),
            ("'entity'", "'relationship'"),
            ("“entity”", "“relationship”"),
            ("『entity』", "『relationship』"),
            ("《entity》", "《relationship》"),
            ("<entity>", "<relationship>"),
            ("[entity]", "[relationship]"),
            ("{entity}", "{relationship}"),
            ("*entity*", "*relationship*"),
            ("`entity`", "`relationship`"),
            ("ｅｎｔｉｔｙ", "ｒｅｌａｔｉｏｎｓｈｉｐ"),
            ("“entity“", "“relationship“"),
            ("''entity''", "''relationship''"),
            ("&quot;entity&quot;", "&quot;relationship&quot;"),
            ("\\u0022entity\\u0022", "\\u0022relationship\\u0022"),
            ('"entity" ', '"relationship" '),
            ('"\u200bentity"', '"\u200brelationship"'),
            ('"entity_1"', '"relationship_1"'),
            ('"entity 1"', '"relationship 1"'),
            ('"entity1"', '"relationship1"'),
            ('"Entity record"', '"Relationship record"'),
            ('"entitiy"', '"relationshp"'),
        )
    },
    "named fields": _each(lambda n, kind, f: _named_fields(kind, f), "\n##\n"),
    "numbered 1)": _each(lambda n, k, f: f'{n}) ("{k}"<|>' + "<|>".join(f) + ")"),
    "numbered #1": _each(lambda n, k, f: f'#{n} ("{k}"<|>' + "<|>".join(f) + ")"),
    "numbered Record 1:": _each(lambda n, k, f: f'Record {n}: ("{k}"<|>' + "<|>".join(f) + ")"),
    "numbered **1.**": _each(lambda n, k, f: f'**{n}.** ("{k}"<|>' + "<|>".join(f) + ")"),
    "numbered without brackets": _each(lambda n, k, f: f"{n}. {k}<|>" + "<|>".join(f)),
    "numbered [1]": _each(lambda n, k, f: f'[{n}] ("{k}"<|>' + "<|>".join(f) + ")"),
    "Chinese numbers": _each(lambda n, k, f: f'{n}、（"{k}"<|>' + "<|>".join(f) + "）"),
    "list signs": _each(lambda n, k, f: f'• ("{k}"<|>' + "<|>".join(f) + ")"),
    "plus signs": _each(lambda n, k, f: f"+ {k}<|>" + "<|>".join(f)),
    "headings between": _each(lambda n, k, f: f'### {k.title()} {n}\n("{k}"<|>' + "<|>".join(f) + ")", "\n\n"),
    "explained each": _each(lambda n, k, f: f'("{k}"<|>' + "<|>".join(f) + ")  <- this follows from the text"),
    "comment each": _each(lambda n, k, f: f'("{k}"<|>' + "<|>".join(f) + ") // from the text"),
    "hash comment each": _each(lambda n, k, f: f'("{k}"<|>' + "<|>".join(f) + ") # from the text"),
    "prose between": _each(
        lambda n, k, f: f'("{k}"<|>' + "<|>".join(f) + ")", "\n\nThe next one is about the same:\n\n"
    ),
    "kind outside": _each(lambda n, k, f: f'"{k}"(' + "<|>".join(f) + ")"),
    "call": _each(lambda n, k, f: f"{k}(" + ", ".join(json.dumps(x, ensure_ascii=False) for x in f) + ")"),
    "Python tuples": _each(lambda n, k, f: repr((k, *f)), ",\n", ""),
    "list of Python tuples": _again(lambda rs: repr([(k, *f) for k, f in rs])),
    "Python tuples with numbers": _again(lambda rs: "\n".join(repr((k, *f[:3], *map(_number, f[3:]))) for k, f in rs)),
    "arrays": _again(lambda rs: json.dumps([[k, *f] for k, f in rs], ensure_ascii=False)),
    "arrays by line": _again(lambda rs: "\n".join(json.dumps([k, *f], ensure_ascii=False) for k, f in rs)),
    "commas and quotes": _each(lambda n, k, f: f'("{k}", ' + ", ".join(f'"{x}"' for x in f) + ")", "\n##\n"),
    "commas and quotes, number bare": _each(
        lambda n, k, f: f'("{k}", ' + ", ".join(f'"{x}"' if i < 3 else x for i, x in enumerate(f)) + ")", "\n##\n"
    ),
    "commas without quotes": _each(lambda n, k, f: f"({k}, " + ", ".join(f) + ")", "\n##\n"),
    "full-width commas": _each(lambda n, k, f: f"（{k}，" + "，".join(f) + "）", "\n##\n"),
    "semicolons": _each(lambda n, k, f: f"({k}; " + "; ".join(f) + ")", "\n##\n"),
    "CSV": _again(_csv),
    "CSV with a head": _again(lambda rs: "record,a,b,c,d\n" + _csv(rs)),
    "CSV with semicolons": _again(lambda rs: _csv(rs, True, ";")),
    "TSV": _again(lambda rs: _csv(rs, False, "\t")),
    "pipes": _each(lambda n, k, f: f"{k}|" + "|".join(f)),
    "pipes with blanks": _each(lambda n, k, f: f"{k} | " + " | ".join(f)),
    "one table": _again(
        lambda rs: (
            "| Record | A | B | C | D |\n|---|---|---|---|---|\n"
            + "\n".join(f"| {k} | " + " | ".join([*f, ""][:4]) + " |" for k, f in rs)
        )
    ),
    "two tables": _sections(
        (
            "### Entities\n\n| Entity Name | Entity Type | Description |\n| --- | :---: | --- |",
            "### Relationships\n\n| Source | Target | Description | Strength |\n|---|---|---|---|",
        ),
        _table(),
        _table(),
    ),
    "two tables without outer pipes": _sections(
        ("Name | Type | Description\n--- | --- | ---", "Source | Target | Description | Strength\n---|---|---|---"),
        lambda f: " | ".join(f),
        lambda f: " | ".join(f),
    ),
    "two tables with other columns": _sections(
        (
            "| # | Entity | Category | Summary |\n|---|---|---|---|",
            "| Source Entity | Target Entity | Relationship Strength | Relationship Description |\n|---|---|---|---|",
        ),
        lambda f: f"| 1 | {f[0]} | {f[1]} | {f[2]} |",
        lambda f: f"| **{f[0]}** | {f[1]} | {f[3]} | {f[2]} |",
    ),
    "Chinese tables": _sections(
        (
            "| 实体名称 | 实体类型 | 实体描述 |\n|---|---|---|",
            "| 源实体 | 目标实体 | 关系描述 | 关系强度 |\n|---|---|---|---|",
        ),
        _table(),
        _table(),
    ),
    "tuples under headings without kinds": _sections(
        ("Entities:", "Relationships:"), lambda f: "(" + "<|>".join(f) + ")", lambda f: "(" + "<|>".join(f) + ")"
    ),
    "bullets name (type): description": _sections(
        ("**Entities**", "**Relationships**"),
        lambda f: f"- **{f[0]}** ({f[1]}): {f[2]}",
        lambda f: f"- **{f[0]}** -> **{f[1]}**: {f[2]} ({f[3]})",
    ),
    "bullets name (type) - description": _sections(
        ("Entities:", "Relationships:"),
        lambda f: f"* {f[0]} ({f[1]}) - {f[2]}",
        lambda f: f"* {f[0]} → {f[1]}: {f[2]} (strength: {f[3]})",
    ),
    "numbered name (type)": _sections(
        ("1. Entities", "2. Relationships"),
        lambda f: f"1. {f[0]} [{f[1]}]: {f[2]}",
        lambda f: f"2. {f[0]} <-> {f[1]}: {f[2]} [{f[3]}]",
    ),
    "key-value blocks": _each(lambda n, k, f: _key_values(k, f), "\n", ""),
    "key-value bullets": _each(lambda n, k, f: _key_values_bullets(k, f), "\n\n", ""),
    "key-value line": _each(
        lambda n, k, f: (
            f"Entity: {f[0]}, Type: {f[1]}, Description: {f[2]}"
            if k == "entity"
            else f"Source: {f[0]}, Target: {f[1]}, Description: {f[2]}, Strength: {f[3]}"
        ),
        "\n",
        "",
    ),
    "XML": _again(lambda rs: "<graph>\n" + "\n".join(_xml(k, f) for k, f in rs) + "\n</graph>"),
    "XML attributes": _again(lambda rs: "\n".join(_xml_attributes(k, f) for k, f in rs)),
    "tagged tuples": _each(lambda n, k, f: f'<record>("{k}"<|>' + "<|>".join(f) + ")</record>", "\n"),
    "output tag": lambda text, chance: f"<output>\n{text}\n</output>",
    "answer tag": lambda text, chance: f"<answer>{text}</answer>",
    "YAML": _again(_yaml),
    "YAML bare": _again(_yaml_bare),
    "JSON": _json(lambda g: g),
    "JSON fenced": lambda text, chance: (
        "Here:\n```json\n" + json.dumps(_graph(records_of(text), _PLAIN)) + "\n```\nDone."
    ),
    "JSON camel case": _json(
        lambda g: g,
        (
            "entityName",
            "entityType",
            "entityDescription",
            "sourceEntity",
            "targetEntity",
            "relationshipDescription",
            "relationshipStrength",
        ),
    ),
    "JSON keys in capitals": _json(
        lambda g: g,
        ("Name", "Type", "Description", "Source", "Target", "Description", "Weight"),
        ("Entities", "Relationships"),
    ),
    "JSON snake keys": _json(
        lambda g: g,
        (
            "entity_name",
            "entity_type",
            "entity_description",
            "source_entity",
            "target_entity",
            "relationship_description",
            "relationship_strength",
        ),
    ),
    "JSON keys with blanks": _json(
        lambda g: g,
        (
            "entity name",
            "entity type",
            "entity description",
            "source entity",
            "target entity",
            "relationship description",
            "relationship strength",
        ),
    ),
    "JSON src dst": _json(
        lambda g: g, ("entity", "category", "desc", "src", "dst", "desc", "strength"), ("nodes", "edges")
    ),
    "JSON from to": _json(
        lambda g: g, ("label", "class", "details", "from", "to", "reason", "score"), ("nodes", "relations")
    ),
    "JSON node1": _json(
        lambda g: g, ("id", "type", "text", "node1", "node2", "relation", "importance"), ("vertices", "links")
    ),
    "JSON Spanish": _json(
        lambda g: g,
        ("nombre", "tipo", "descripción", "origen", "destino", "descripción", "fuerza"),
        ("entidades", "relaciones"),
    ),
    "JSON German": _json(
        lambda g: g,
        ("Name", "Typ", "Beschreibung", "Quelle", "Ziel", "Beschreibung", "Stärke"),
        ("Entitäten", "Beziehungen"),
    ),
    "JSON French": _json(
        lambda g: g, ("nom", "type", "description", "source", "cible", "description", "force"), ("entités", "relations")
    ),
    "JSON Chinese": _json(
        lambda g: g, ("名称", "类型", "描述", "源实体", "目标实体", "描述", "强度"), ("实体", "关系")
    ),
    "JSON Japanese": _json(
        lambda g: g, ("名前", "種類", "説明", "ソース", "ターゲット", "説明", "強度"), ("エンティティ", "関係")
    ),
    "JSON Russian": _json(
        lambda g: g, ("имя", "тип", "описание", "источник", "цель", "описание", "вес"), ("сущности", "связи")
    ),
    "JSON in a graph": _json(lambda g: {"graph": g}),
    "JSON in two wraps": _json(lambda g: {"result": {"data": g}}),
    "JSON in lists": _json(lambda g: [{"entities": g["entities"]}, {"relationships": g["relationships"]}]),
    "JSON two objects": _again(
        lambda rs: "Entities:\n{}\n\nRelationships:\n{}".format(
            json.dumps({"entities": _graph(rs, _PLAIN)["entities"]}),
            json.dumps({"relationships": _graph(rs, _PLAIN)["relationships"]}),
        )
    ),
    "JSON two fences": _again(
        lambda rs: "```json\n{}\n```\n```json\n{}\n```".format(
            json.dumps({"entities": _graph(rs, _PLAIN)["entities"]}),
            json.dumps({"relationships": _graph(rs, _PLAIN)["relationships"]}),
        )
    ),
    "JSON two lists": _again(
        lambda rs: "Entities:\n```json\n{}\n```\nRelationships:\n```json\n{}\n```".format(
            json.dumps(_graph(rs, _PLAIN)["entities"]), json.dumps(_graph(rs, _PLAIN)["relationships"])
        )
    ),
    "JSON flat list": _again(lambda rs: json.dumps(_flat(rs), ensure_ascii=False)),
    "JSON lines": _again(lambda rs: "\n".join(json.dumps(x, ensure_ascii=False) for x in _flat(rs))),
    "JSON lines without kinds": _again(
        lambda rs: "\n".join(
            json.dumps({k: v for k, v in x.items() if k != "record"}, ensure_ascii=False) for x in _flat(rs)
        )
    ),
    "JSON object by kind": _again(
        lambda rs: "\n".join(
            json.dumps({k: dict(zip(_PLAIN[:3] if k == "entity" else _PLAIN[3:], f, strict=True))}) for k, f in rs
        )
    ),
    "JSON entities by name": _json(
        lambda g: {
            "entities": {e["name"]: {"type": e["type"], "description": e["description"]} for e in g["entities"]},
            "relationships": g["relationships"],
        }
    ),
    "JSON records as arrays": _json(lambda g: {k: [list(x.values()) for x in v] for k, v in g.items()}),
    "JSON records as tuples": _again(
        lambda rs: json.dumps(
            {
                "entities": [f'("entity"<|>{"<|>".join(f)})' for k, f in rs if k == "entity"],
                "relationships": [f'("relationship"<|>{"<|>".join(f)})' for k, f in rs if k != "entity"],
            }
        )
    ),
    "JSON string of tuples": lambda text, chance: json.dumps({"output": text}),
    "JSON list of tuples": _again(lambda rs: json.dumps([f'("{k}"<|>{"<|>".join(f)})' for k, f in rs], indent=1)),
    "JSON string": lambda text, chance: json.dumps(text),
    "JSON cut": lambda text, chance: (lambda t: t)(
        json.dumps(_graph(records_of(text), _PLAIN), indent=1).rstrip("}\n ]")
    ),
    "JSON single quotes": _json(lambda g: g) and _again(lambda rs: repr(_graph(rs, _PLAIN))),
    "JSON percent weights": _again(
        lambda rs: json.dumps(
            {
                **(g := _graph(rs, _PLAIN)),
                "relationships": [
                    {**r, "weight": f"{r['weight']:g}/10"} for r in g["relationships"] if isinstance(r["weight"], float)
                ]
                + [r for r in g["relationships"] if not isinstance(r["weight"], float)],
            }
        )
    ),
    "NUL bytes": lambda text, chance: text.replace(" ", "\x00 ", 30),
    "lone surrogates": lambda text, chance: text.replace("\n##\n", "\ud800\n##\n").replace('("', '\udfff("', 3),
    "replacement characters": lambda text, chance: text.replace("\n##\n", "\ufffd\n##\n"),
    "byte order marks inside": lambda text, chance: text.replace('("', '\ufeff("'),
    "right-to-left marks": lambda text, chance: text.replace('("', '\u202b("').replace(")\n", ")\u202c\n"),
    "non-breaking spaces": lambda text, chance: text.replace(" ", "\u00a0"),
    "ideographic spaces": lambda text, chance: text.replace('"<|>', '"\u3000<|>\u3000'),
    "escaped line ends": lambda text, chance: text.replace("\n", "\\n"),
    "escaped line ends and quotes": lambda text, chance: text.replace("\n", "\\n").replace('"', '\\"'),
    "doubly escaped": lambda text, chance: json.dumps(json.dumps(text)),
    "HTML all": lambda text, chance: html.escape(text),
    "HTML twice": lambda text, chance: html.escape(html.escape(text)),
    "HTML paragraphs": _each(lambda n, k, f: f'<p>("{k}"<|>' + "<|>".join(f) + ")</p>"),
    "HTML list": _again(
        lambda rs: "<ul>\n" + "\n".join(f'<li>("{k}"<|>' + "<|>".join(f) + ")</li>" for k, f in rs) + "\n</ul>"
    ),
    "HTML pre": lambda text, chance: f"<pre><code>{html.escape(text)}</code></pre>",
    "LaTeX": lambda text, chance: text.replace("<|>", "$<|>$"),
    "code points": lambda text, chance: text.replace("<", "\\u003c").replace(">", "\\u003e"),
    "nested fences": lambda text, chance: f"````markdown\n```text\n{text}\n```\n````",
    "tilde fences": lambda text, chance: f"~~~\n{text}\n~~~",
    "two fences": lambda text, chance: (
        lambda h: "```\n" + "##".join(h[: len(h) // 2]) + "\n```\nand\n```\n" + "##".join(h[len(h) // 2 :]) + "\n```"
    )(text.split("##")),
    "thinking unfinished before": lambda text, chance: f"</think>\n{text}",
    "thinking twice": lambda text, chance: f"<think>a</think>\n<think>b</think>\n{text}",
    "thinking in Chinese": lambda text, chance: f"<思考>好的</思考>\n{text}",
    "thinking harmony": lambda text, chance: (
        f"<|channel|>analysis<|message|>We list them.<|end|><|start|>assistant<|channel|>final<|message|>{text}"
    ),
    "thinking reflection": lambda text, chance: f"<reflection>ok</reflection>\n{text}",
    "thinking brackets": lambda text, chance: f"[THINK]The text says so.[/THINK]\n{text}",
    "thinking seed": lambda text, chance: f"<seed:think>The text says so.</seed:think>{text}",
    "chat tokens": lambda text, chance: f"<|im_start|>assistant\n{text}<|im_end|>",
    "end of text": lambda text, chance: f"<s> {text}</s><|endoftext|>",
    "llama tokens": lambda text, chance: f"<|start_header_id|>assistant<|end_header_id|>\n\n{text}<|eot_id|>",
    "inst tokens": lambda text, chance: f"[/INST] {text} </s>",
    "output label": lambda text, chance: f"Output:\n{text}",
    "output dashes": lambda text, chance: f"######################\nOutput:\n{text}\n######################",
    "long line": lambda text, chance: text.replace("\n", " ") + " " * 20_000,
    "loop": _loop,
    "no space at all": lambda text, chance: re.sub(r"\s*\n\s*", "", text),
    "line breaks in fields": lambda text, chance: re.sub(
        r"(?<=\w) (?=\w+ \w+[ .])", lambda m: chance.choice(" \n"), text
    ),
    "line per field": lambda text, chance: text.replace("<|>", "<|>\n"),
    "line before delimiter": lambda text, chance: text.replace("<|>", "\n<|>"),
    "blank line per field": lambda text, chance: text.replace("<|>", "<|>\n\n"),
    "indented fields": lambda text, chance: text.replace("<|>", "\n    <|> "),
    "mirrored brackets": lambda text, chance: text.replace('("', ')"'),
    "curly and round": lambda text, chance: text.replace('("', '{("').replace(")\n", ")}\n"),
    "square and round": lambda text, chance: text.replace('("', '[("').replace(")\n", ")]\n"),
    "ornate brackets": lambda text, chance: text.replace('("', '❨"').replace(")\n", "❩\n"),
    "tortoise brackets": lambda text, chance: text.replace('("', '〔"').replace(")\n", "〕\n"),
    "corner brackets": lambda text, chance: text.replace('("', '「"').replace(")\n", "」\n"),
    "full-width square": lambda text, chance: text.replace('("', '［"').replace(")\n", "］\n"),
    "spaces in brackets": lambda text, chance: text.replace('("', '(  "').replace(")\n", "  )\n"),
    "backslash brackets": lambda text, chance: text.replace('("', '\\("').replace(")\n", "\\)\n"),
    "quote round record": _each(lambda n, k, f: f'"({k}<|>' + "<|>".join(f) + ')"', ",\n"),
    "trailing comment": lambda text, chance: (
        text + "\n\nNote: (1) some entities were merged; (2) strengths are estimates."
    ),
    "leading summary": lambda text, chance: "The text (a story) has entities | relationships. I list them:\n\n" + text,
    "half Chinese": lambda text, chance: (
        text.replace("(", "（").replace(")", "）").replace('"', "＂").replace("<|>", "＜｜＞").replace("##", "＃＃")
    ),
}
