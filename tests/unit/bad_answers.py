"""Ways in which models spoil a good answer: functions from an answer and a source of chance to a worse one."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from random import Random

Spoil = Callable[[str, Random], str]

_RECORD = re.compile(r"\(\"(?:entity|relationship|claim)\"(?:<\|>|\s).*?\)(?=\s*(?:##|<\|COMPLETE|\Z|\n))", re.DOTALL)
_KEY = re.compile(r"\"(title|summary|findings|rating|rating_explanation|explanation)\":")
_END = re.compile(r"\s*<\|COMPLETE\|>\s*$")


def _delimiter(mark: str) -> Spoil:
    return lambda text, chance: text.replace("<|>", mark)


def _separator(mark: str) -> Spoil:
    return lambda text, chance: re.sub(r"\s*##\s*", mark, text)


def _lines(change: Callable[[int, str], str], glue: str = "\n") -> Spoil:
    def spoil(text: str, chance: Random) -> str:
        records = [part.strip() for part in re.split(r"\s*##\s*", _END.sub("", text)) if part.strip()]
        return glue.join(change(number, record) for number, record in enumerate(records, start=1)) + "\n<|COMPLETE|>"

    return spoil


def _brackets(opened: str, closed: str) -> Spoil:
    return _lines(lambda _, record: opened + record.removeprefix("(").removesuffix(")") + closed, "\n##\n")


def _weights(form: Callable[[str], str]) -> Spoil:
    return lambda text, chance: re.sub(
        r"<\|>(\d+(?:\.\d+)?)\)", lambda m: f"<|>{form(m[1])})" if "." not in m[1] else m[0], text
    )


def _table(text: str, chance: Random) -> str:
    records = [part.strip() for part in re.split(r"\s*##\s*", _END.sub("", text)) if part.strip()]
    return "\n".join("| " + " | ".join(record.strip("()").split("<|>")) + " |" for record in records)


def _escaped(text: str, chance: Random) -> str:
    return html.escape(text, quote=False)


def _mixed_lines(text: str, chance: Random) -> str:
    return "".join(chance.choice(["\r\n", "\n", "\r\n\r\n"]) if c == "\n" else c for c in text)


def _missing_quotes(text: str, chance: Random) -> str:
    return re.sub(r"\"(entity|relationship|claim)\"", lambda m: chance.choice([m[1], f'"{m[1]}', f'{m[1]}"']), text)


def _around(before: str, after: str = "") -> Spoil:
    return lambda text, chance: before + text + after


#: Spoiled forms of answers in the tuple format; nothing in them is lost for a lenient reader.
OF_TUPLES: dict[str, Spoil] = {
    "fence": _around("```\n", "\n```"),
    "fence named": _around("```text\n", "\n```"),
    "fence never closed": _around("```plaintext\n"),
    "fences round each record": _lines(lambda _, record: f"```\n{record}\n```"),
    "reasoning": _around('<think>\nEntities: ("entity"<|>GHOST<|>PERSON<|>of a thought)\n</think>\n\n'),
    "reasoning without its beginning": _around("First I list the people, then the places.\n</think>\n"),
    "reasoning in capitals": _around("<THINKING>hm</THINKING>"),
    "reasoning with attributes": _around('<think type="long">hm, ("entity"<|>GHOST</think>\n'),
    "prose": _around("Certainly! Here are the entities and relationships:\n\n", "\n\nLet me know if you need more."),
    "prose on the line": _around("Sure, here you go: ", " Hope this helps!"),
    "heading": _around("## Entities and relationships\n\n"),
    "byte order mark": _around("\ufeff"),
    "zero width": lambda text, chance: text.replace('("', '(\u200b"'),
    "carriage returns": lambda text, chance: text.replace("\n", "\r\n"),
    "mixed line ends": _mixed_lines,
    "indented": lambda text, chance: "\n".join("\t  " + line for line in text.split("\n")),
    "no end mark": lambda text, chance: _END.sub("", text),
    "end mark glued": lambda text, chance: _END.sub("<|COMPLETE|>", text),
    "end mark in brackets": lambda text, chance: _END.sub('\n("<|COMPLETE|>")', text),
    "end mark in lower case": lambda text, chance: _END.sub("\n<|complete|>", text),
    "end mark with blanks": lambda text, chance: _END.sub("\n<| COMPLETE |>", text),
    "end mark broken": lambda text, chance: _END.sub("\n<|COMPLETE>", text),
    "end mark after each record": _lines(lambda _, record: record + "<|COMPLETE|>", "\n"),
    "end mark and text after it": _around("", "\n\nNote: the text is fiction."),
    "kinds without quotes": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r"\1", text),
    "some quotes missing": _missing_quotes,
    "kinds in single quotes": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r"'\1'", text),
    "kinds in capitals": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", lambda m: m[0].upper(), text),
    "typographic quotes": lambda text, chance: re.sub(r"\"([^\"\n]*)\"", r"“\1”", text),
    "German quotes": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r"„\1“", text),
    "guillemets": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r"« \1 »", text),
    "corner brackets": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r"「\1」", text),
    "doubled quotes": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r'""\1""', text),
    "escaped quotes": lambda text, chance: text.replace('"', '\\"'),
    "every field in quotes": lambda text, chance: re.sub(
        r"<\|>([^<>\n]*?)(?=<\|>|\)\s*(?:##|\n|<\|C|$))", r'<|>"\1"', text
    ),
    "bold": _lines(lambda _, record: f"**{record}**"),
    "bold kinds": lambda text, chance: re.sub(r"\"(entity|relationship|claim)\"", r'**"\1"**', text),
    "inline code": _lines(lambda _, record: f"`{record}`"),
    "bullets": _lines(lambda _, record: f"- {record}"),
    "star bullets": _lines(lambda _, record: f"* {record}"),
    "numbered": _lines(lambda number, record: f"{number}. {record}"),
    "numbered in brackets": _lines(lambda number, record: f"({number}) {record}"),
    "quoted lines": _lines(lambda _, record: f"> {record}"),
    "one line": _lines(lambda _, record: record, " "),
    "one line without blanks": _lines(lambda _, record: record, ""),
    "commas between": _lines(lambda _, record: record, ",\n"),
    "a list": lambda text, chance: (
        "[\n" + _lines(lambda _, record: record, ",\n")(text, chance).replace("\n<|C", "\n]\n<|C")
    ),
    "semicolons between": _lines(lambda _, record: record, ";\n"),
    "trailing delimiter": lambda text, chance: re.sub(r"\)(\s*(?:##|<\|C))", r"<|>)\1", text),
    "trailing comma": _lines(lambda _, record: record + ","),
    "bracket left out at the end": _lines(lambda _, record: record.removesuffix(")"), "\n##\n"),
    "bracket left out at the beginning": _lines(lambda _, record: record.removeprefix("("), "\n##\n"),
    "no brackets": _lines(lambda _, record: record.strip("()")),
    "square brackets": _brackets("[", "]"),
    "braces": _brackets("{", "}"),
    "angle brackets": _brackets("<", ">"),
    "doubled brackets": _brackets("((", "))"),
    "full-width brackets": _brackets("（", "）"),
    "black brackets": _brackets("【", "】"),
    "full-width comma behind": _lines(lambda _, record: record + "，"),
    "HTML entities": _escaped,
    "HTML breaks": _lines(lambda _, record: record, "<br>\n"),
    "markdown escapes": lambda text, chance: text.replace("<|>", "<\\|>").replace("##", "\\#\\#"),
    "table": _table,
    **{
        f"delimiter {mark!r}": _delimiter(mark)
        for mark in (
            *(
                "<||>",
                "<|",
                "|>",
                " <|> ",
                "< | >",
                "<|>|",
                "|",
                " | ",
                "||",
                "\t",
                "<|#|>",
                "<｜>",
                "＜｜＞",
                "｜",
                "<¦>",
            ),
            *("{tuple_delimiter}", "<tuple_delimiter>", "<|tuple|>", "<|>\n", "<|>,", "<>", "::", "<SEP>"),
        )
    },
    **{
        f"separator {mark!r}": _separator(mark)
        for mark in (
            "\n",
            "####",
            "#",
            "\n\n",
            "\n---\n",
            "##\n##",
            "{record_delimiter}",
            "；",
            "\n***\n",
            "＃＃",
            "\n##",
            " ## ",
            "<##>",
        )
    },
    "weights of ten": _weights(lambda n: f"{n}/10"),
    "weights out of ten": _weights(lambda n: f"{n} out of 10"),
    "weights in quotes": _weights(lambda n: f'"{n}"'),
    "weights with a point": _weights(lambda n: f"{n}.0"),
    "weights with a comma": _weights(lambda n: f"{n},0"),
    "weights with a name": _weights(lambda n: f"relationship_strength: {n}"),
    "weights in bold": _weights(lambda n: f"**{n}**"),
    "weights explained": _weights(lambda n: f"{n} (strong)"),
    "weights in full width": _weights(lambda n: n.translate(str.maketrans("0123456789", "０１２３４５６７８９"))),
    "weights in brackets": _weights(lambda n: f"[{n}]"),
}


def _compact(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text)


#: Spoiled forms of answers in JSON; the content can still be read.
OF_JSON: dict[str, Spoil] = {
    "fence": _around("```json\n", "\n```"),
    "fence never closed": _around("Here it is:\n```json\n"),
    "two fences": lambda text, chance: f"```json\n{{}}\n```\nCorrected:\n```json\n{text}\n```",
    "prose": _around("Here is the report {as asked}:\n", "\nI hope this helps {you}."),
    "reasoning": _around('<think>{"title": "draft"}</think>'),
    "reasoning without its beginning": _around('draft: {"title": "x"}\n</think>\n'),
    "byte order mark": _around("\ufeff"),
    "carriage returns": lambda text, chance: text.replace("\n", "\r\n"),
    "trailing commas": lambda text, chance: re.sub(r"(\"|\d|\])(\s*[}\]])", r"\1,\2", text),
    "comments": lambda text, chance: re.sub(r",\n", ", // as asked\n", text, count=3),
    "block comments": lambda text, chance: text.replace("{", "{ /* the report */ ", 1),
    "hash comments": lambda text, chance: re.sub(r",\n", ",  # as asked\n", text, count=1),
    "doubled braces": lambda text, chance: text.replace("{", "{{").replace("}", "}}"),
    "unclosed": lambda text, chance: text.rstrip().removesuffix("}").rstrip(),
    "closed twice": _around("", "}"),
    "wrong last bracket": lambda text, chance: text.rstrip().removesuffix("}") + "]",
    "full-width punctuation": lambda text, chance: re.sub(r"\":", '"：', text).replace('",\n', '"，\n'),
    "full-width braces": lambda text, chance: text.replace("{", "｛").replace("}", "｝"),
    "typographic quotes": lambda text, chance: re.sub(r"(?<!\\)\"([^\"\\]*)(?<!\\)\"", r"“\1”", text),
    "keys without quotes": lambda text, chance: re.sub(_KEY, r"\1:", text),
    "keys in single quotes": lambda text, chance: re.sub(_KEY, r"'\1':", text),
    "missing colon": lambda text, chance: text.replace('"rating":', '"rating"', 1),
    "missing comma": lambda text, chance: re.sub(r"\",(\s*\"(?:rating|findings|summary)\")", r'"\1', text, count=1),
    "equals signs": lambda text, chance: re.sub(r"\"rating\":", '"rating" =', text),
    "None": lambda text, chance: re.sub(
        r"\"rating_explanation\": \"(?:[^\"\\]|\\.)*\"", '"rating_explanation": None', text
    ),
    "NaN": lambda text, chance: re.sub(r"\"rating\": [\d.]+", '"rating": NaN', text),
    "rating of ten": lambda text, chance: re.sub(r"\"rating\": ([\d.]+)", r'"rating": \1/10', text),
    "rating in quotes": lambda text, chance: re.sub(r"\"rating\": ([\d.]+)", r'"rating": "\1/10"', text),
    "rating in words": lambda text, chance: re.sub(r"\"rating\": ([\d.]+)", r'"rating": "\1 (high)"', text),
    "in a list": lambda text, chance: f"[{text}]",
    "in an object": lambda text, chance: f'{{"report": {text}}}',
    "in a string": lambda text, chance: json.dumps(text),
    "escaped line ends": lambda text, chance: text.replace("\n", "\\n"),
    "HTML entities": lambda text, chance: text.replace('"', "&quot;"),
    "one line": lambda text, chance: _compact(text),
    "label": _around("json\n"),
    "assignment": _around("report = ", ";"),
    "call": _around("print(", ")"),
    "Python literal": lambda text, chance: repr(json.loads(text)),
}
