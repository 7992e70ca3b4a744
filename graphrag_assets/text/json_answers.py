"""JSON out of model answers.

Models wrap JSON in prose and code fences, think aloud before it, leave trailing commas, write NaN, use single quotes,
forget the last brace. All of that is read. What is not read is an answer that was cut inside a string: half a sentence
looks like a whole one later, so such an answer is refused unless the caller asks for the part.

Nothing is ever evaluated: only JSON parsers look at the text.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from graphrag_assets.text.reasoning import strip_reasoning

#: Objects that never close which are tried in one answer. Prose holds few braces; the limit keeps hostile text from
#: costing quadratic time.
_MAX_UNCLOSED = 8
#: Levels of brackets that may be open where a text ends: more is no JSON, and guessing what was meant is slow.
_MAX_OPEN = 32
#: Most characters times quotes of a text of which it is guessed what was meant, which takes so much time; the objects in
#: a larger one are looked at one by one.
_MOST_WORK = 10_000_000
#: Characters behind a quote that tell whether it closes a string: blanks, a comma, the next quote.
_LOOKED_AHEAD = 100

_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_OBJECT_START = re.compile(r"[{｛](?=\s*(?:[\"'“”＂「}｝]|[A-Za-z_]\w*\s*[:：]|$))")

_VALUE_START = re.compile(r"[{｛](?=\s*(?:[\"'“”＂「}｝]|[A-Za-z_]\w*\s*[:：]|$))|[\[［](?=\s*[\"'“\[{])")

_STRING = r'"(?:[^"\\]|\\.)*+"'
#: A string that is passed over; one that never ends goes on to the end, so that none is looked for in it.
_PASSED = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_TRAILING_COMMA = re.compile(rf"({_PASSED})|,(?=\s*[}}\]])", re.DOTALL)
_BARE_WORD = re.compile(
    rf"({_PASSED})|(?<![\w.])(NaN|[+-]?Infinity|nan|[+-]?inf|None|undefined|True|False)(?![\w.])", re.DOTALL
)
_WORDS = {"True": "true", "False": "false"}
_FULL_WIDTH = re.compile(rf"({_PASSED})|([｛｝［］：，＂])", re.DOTALL)
_ASCII = str.maketrans("｛｝［］：，＂", '{}[]:,"')
# A single quote is structure where JSON punctuation touches it, else an apostrophe.
_CLOSES = r"'(?=\s*(?:[:}\]]|,\s*['\"{\[\d-]))"
_SINGLE_QUOTED = re.compile(rf"({_PASSED})|(?<=[{{\[,:])(\s*)'((?:[^'\\]|\\.|(?!{_CLOSES})')*+){_CLOSES}", re.DOTALL)
_MISSING_COLON = re.compile(rf"(?<=[{{,])(\s*+{_STRING})(?=\s*[\"{{\[\d])", re.DOTALL)
_EQUALS = re.compile(rf"(?<=[{{,])(\s*+{_STRING})\s*=(?=\s*[\"{{\[\d-])", re.DOTALL)
_SINGLE_KEY = re.compile(r"[{,]\s*'[A-Za-z_]\w*'\s*:")
_QUOTE_PAIRS = ("«»", "「」", "『』", "‹›", "„“")
_OTHER_QUOTES = re.compile(r"[{,]\s*([«「『‹„])\w+[»」』›“]\s*[:：]")
_ESCAPED_LAYOUT = re.compile(r"[{\[,]\s*\\(?:n|\")")
_UNOPENED_KEY = re.compile(r'^(\{\s*)([A-Za-z_]\w*"\s*:)')


class CutError(ValueError):
    """The answer ends inside a string, or before its brackets close in a way that loses content."""


def parse_json_object(
    text: str, keys: Sequence[str] = (), *, list_key: str | None = None, partial: bool = False
) -> dict[str, Any]:
    """Read the JSON object of an answer.

    Args:
        text: Answer of a model.
        keys: Keys that the object should have. Of several objects the one with most of them is taken, the later one of
            equals; an object with none of them is refused.
        list_key: Where the answer may be a bare list, the key under which it is returned.
        partial: Take what is complete of an answer that was cut.

    Returns:
        The object. Numbers are finite (others are null), strings can be written as UTF-8.

    Raises:
        CutError: The answer was cut, and the part is not wanted.
        ValueError: There is no such object.
    """
    text = strip_reasoning(text).replace("\x00", "")
    if not text:
        raise ValueError("the answer is empty; expected a JSON object")
    whole = _strict(text)
    if isinstance(whole, str):  # the object as a string of JSON
        return parse_json_object(whole, keys, list_key=list_key, partial=partial)
    if whole is None and "{" in text:
        text = _unescaped(text)
    if isinstance(whole, dict) and (not keys or any(key in whole for key in keys)):
        return _clean_object(whole)
    best: dict[str, Any] | None = None
    best_score = 0
    cut = False
    for candidate in _candidates(text):
        try:
            value = _read(candidate, partial)
        except CutError:  # what stands inside of an object that was cut (one finding of a report) is not the answer
            cut = True
            break
        if isinstance(value, list):
            value = _from_list(value, keys, list_key)
        if not isinstance(value, dict):
            continue
        score = sum(key in value for key in keys) if keys else 1
        if score and score >= best_score:
            best, best_score = value, score
            if not keys:
                break
    if best is None:
        expected = f"a JSON object with {', '.join(keys)}" if keys else "a JSON object"
        if cut:
            raise CutError(f"the answer was cut; expected the whole of {expected}")
        raise ValueError(f"the answer holds no JSON that can be read; expected {expected}")
    return _clean_object(best)


def json_values(text: str, *, partial: bool = False) -> Iterator[Any]:
    """All objects and lists of an answer, in their order; what stands in another one is part of that.

    Args:
        text: Answer of a model.
        partial: Take what is complete of an answer that was cut.

    Raises:
        CutError: The last one was cut, and the part is not wanted.
    """
    text = strip_reasoning(text).replace("\x00", "")
    whole = _strict(text)
    while isinstance(whole, str):
        text, whole = whole, _strict(whole)
    if isinstance(whole, dict | list):
        yield _clean(whole)
        return
    text = _unescaped(text)
    position = unclosed = 0
    while unclosed < _MAX_UNCLOSED and (start := _VALUE_START.search(text, position)) is not None:
        end = _balanced_end(text, start.start())
        value = _read(text[start.start() : end], partial)
        if isinstance(value, dict | list):
            yield _clean(value)
        closed = value is not None or (end < len(text) and not _is_large(text[start.start() : end]))
        unclosed += not closed
        position = end if closed else start.end()


def is_json(text: str) -> bool:
    """Whether an answer is JSON and nothing else."""
    return _strict(text) is not None


def _candidates(text: str) -> Iterator[str]:
    """Parts of the text that may be the JSON, most likely first."""
    yield text
    for block in _FENCE.findall(text):
        yield block.strip()
    position = unclosed = 0
    while unclosed < _MAX_UNCLOSED and (start := _OBJECT_START.search(text, position)) is not None:
        end = _balanced_end(text, start.start())
        yield text[start.start() : end]
        # An object that closes is done with; within one that never does, another may begin (a brace in the prose).
        closed = end < len(text)
        unclosed += not closed
        position = end if closed else start.end()


def _read(text: str, partial: bool) -> Any:
    """Parse with ever more tolerance; None when it is no JSON at all."""
    stripped = text.strip()
    if stripped[:1] not in {"{", "[", "｛", "［"}:
        return None
    value = _strict(stripped)
    if value is None:
        mended = _mend(stripped)
        value = _strict(mended)
    if value is None:
        closed = _close(mended, partial)
        value = _strict(closed)
    if value is None:
        value = _strict(_mend(closed))
    return _repair(closed) if value is None else value


def _unescaped(text: str) -> str:
    """An object whose quotes or line ends were written for HTML or for a string of a program."""
    if '"' not in text and "&quot;" in text:
        text = html.unescape(text)
    if '"' not in text and (quoted := _OTHER_QUOTES.search(text)):
        pair = next(pair for pair in _QUOTE_PAIRS if quoted[1] in pair)
        text = text.translate(dict.fromkeys(map(ord, pair), '"'))
    if _ESCAPED_LAYOUT.search(text):
        text = text.replace("\\n", "\n").replace('\\"', '"') if "{\\n" in text or '{\\"' in text else text
    return text


def _strict(text: str) -> Any:
    """Parse as JSON (line breaks in strings and NaN allowed); None when it is none."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None


def _mend(text: str) -> str:
    """Common slips outside of strings: full-width punctuation, single quotes, trailing commas, words JSON lacks."""
    if _SINGLE_KEY.search(text):  # first, since full-width signs in those strings are text
        text = _without_single_quotes(text)
    text = _FULL_WIDTH.sub(lambda m: m.group(1) or m.group(2).translate(_ASCII), text)
    text = _UNOPENED_KEY.sub(r'\1"\2', text)
    if _SINGLE_KEY.search(text) or not re.search(r'[{\[,]\s*"', text):
        text = _without_single_quotes(text)
    text = _EQUALS.sub(r"\1:", text)
    text = _MISSING_COLON.sub(r"\1:", text)
    text = _TRAILING_COMMA.sub(lambda m: m.group(1) or "", text)
    return _BARE_WORD.sub(lambda m: m.group(1) or _WORDS.get(m.group(2), "null"), text)


def _without_single_quotes(text: str) -> str:
    """Strings in single quotes as ones in double quotes."""
    # Behind the last quote that closes a string, each one that opens would be followed to the end.
    last = max((found.end() for found in re.finditer(_CLOSES, text)), default=0)
    return _SINGLE_QUOTED.sub(_in_double_quotes, text[: last + _LOOKED_AHEAD]) + text[last + _LOOKED_AHEAD :]


def _in_double_quotes(found: re.Match[str]) -> str:
    """A string in single quotes as one of JSON; one in double quotes as it is."""
    if found.group(1) is not None:
        return found.group(1)
    text = found.group(3).replace("\\'", "'")
    inside = re.sub(
        r'\\.|"|[\x00-\x1f]', lambda m: m.group() if len(m.group()) > 1 else json.dumps(m.group())[1:-1], text
    )
    return f'{found.group(2)}"{inside}"'


def _scan(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Brackets outside of strings, and the quotes that begin and end strings, with their positions."""
    inside = False
    for sign in re.compile(r'\\.|["{}\[\]]', re.DOTALL).finditer(text, start):
        character = sign.group()
        if character == '"':
            inside = not inside
            yield sign.start(), '"'
        elif not inside and len(character) == 1:
            yield sign.start(), character


def _balanced_end(text: str, start: int) -> int:
    """Position after the bracket that closes the one at start; the end of the text when none does."""
    depth = 0
    for position, sign in _scan(text, start):
        if sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
            if depth <= 0:
                return position + 1
    return len(text)


def _close(text: str, partial: bool) -> str:
    """Add the brackets that are missing at the end.

    Raises:
        CutError: The text ends inside a string or after a comma or colon, and the part is not wanted.
    """
    stack: list[str] = []
    inside = False
    safe: tuple[int, list[str]] = (0, [])  # after the last closed bracket: position and what is open there
    for position, sign in _scan(text, 0):
        if sign == '"':
            inside = not inside
        elif sign in "{[":
            stack.append("}" if sign == "{" else "]")
        elif stack and stack[-1] == sign:
            stack.pop()
            safe = (position + 1, list(stack)) if len(stack) < _MAX_OPEN else safe
            if not stack:
                return text[: position + 1]
        elif sign in stack:  # a bracket of another kind was forgotten
            return text
    if not stack:
        return text
    if not inside and text.rstrip()[-1:] in {"}", "]", '"', "e", "l", *"0123456789"} and not _ends_with_key(text):
        return text.rstrip() + "".join(reversed(stack))
    if not partial:
        raise CutError("the answer was cut")
    position, open_then = safe
    return text[:position] + "".join(reversed(open_then)) if position else ""


def _ends_with_key(text: str) -> bool:
    """Whether the last string of an object that is not closed is a key without a value."""
    return bool(re.search(rf"[{{,]\s*{_STRING}\s*$", text[-2000:], re.DOTALL)) and not re.search(
        r"\[[^\]{}]*$", text[-2000:]
    )


def _repair(text: str) -> Any:
    """Last resort: a library that guesses what was meant."""
    too_deep = text.count("[") + text.count("{") - text.count("]") - text.count("}") > _MAX_OPEN
    if too_deep or _is_large(text):
        return None
    from json_repair import repair_json

    try:
        value = repair_json(text, return_objects=True, skip_json_loads=True)
    except Exception:  # whatever a guess trips over, the text is not JSON
        return None
    return value if isinstance(value, dict | list) else None


def _is_large(text: str) -> bool:
    return len(text) * text.count('"') > _MOST_WORK


def _from_list(value: list[Any], keys: Sequence[str], list_key: str | None) -> Any:
    """A bare list: the one object in it that has the keys, or the list under its key."""
    objects = [item for item in value if isinstance(item, dict)]
    if keys:
        fitting = [item for item in objects if any(key in item for key in keys)]
        if fitting:
            return max(fitting, key=lambda item: sum(key in item for key in keys))
    elif len(objects) == 1 and len(value) == 1 and list_key is None:
        return objects[0]
    return {list_key: value} if list_key is not None else None


def _clean_object(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(_clean(key)): _clean(item) for key, item in value.items()}


def _clean(value: Any) -> Any:
    """Numbers finite, strings writable as UTF-8, keys strings."""
    if isinstance(value, dict):
        return _clean_object(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    return value
