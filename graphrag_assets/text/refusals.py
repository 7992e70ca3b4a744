"""Answers that are no answers: refusals, and honest statements that there is nothing to report."""

from __future__ import annotations

import re

from graphrag_assets.text.patterns import beginning_with
from graphrag_assets.text.reasoning import strip_reasoning

#: A refusal is short, and says so at once; longer text is an answer that happens to contain such words.
_MAX_LENGTH = 1_200
_MAX_START = 300

_TASK = (
    r"(?:assist|help|comply|fulfil|provide|process|complete|continue|generate|creat|produc|extract|summari[sz]|answer|"
    r"respond|identif|analy[sz]|discuss|engage|do (?:that|this)|with (?:that|this|your)|requests?\b|as an ai\b)"
)
#: "I cannot" alone is no refusal: a summary may well quote a letter that says so. It must speak of the task.
_REFUSAL = re.compile(
    beginning_with(
        "isacujlnedmкия抱对對我申죄",
        r"\b(?:(?:i(?:['’]m| am) (?:sorry|unable|not able)|i apologi[sz]e|sorry,|"
        r"i (?:can(?:no|['’])t|cannot|won['’]t|will not|must decline|have to decline))(?s:.){0,80}?"
        + _TASK
        + r"|as an ai\b|i(?:['’]m| am) just an ai|i must decline|i have to decline|"
        r"(?:can(?:no|['’])t|cannot|unable to) (?:assist|help|comply|fulfil\w*)(?: with)? (?:this|that|your))|"
        r"(?:je suis désolé|je ne peux pas|lo siento|no puedo ayudar|es tut mir leid|ich kann (?:dabei|ihnen|das) |"
        r"não posso ajudar|desculpe|mi dispiace|non posso aiutar|к сожалению, я|извините|я не могу)|"
        r"(?:抱歉|对不起|對不起|我(?:无法|不能)(?:协助|提供|回答|满足|完成)|申し訳(?:ありません|ございません)|죄송)",
    ),
    re.IGNORECASE,
)
_THINGS = (
    r"(?:entit\w+|relationship\w*|claims?|facts?|records?|items?|more|further|else|additional|missed|missing|"
    r"to (?:add|extract))"
)
_NOTHING = re.compile(
    r"[\s\"'`(*\[]*(?:none|n/?a|nothing|no|empty|null|无|無|没有|なし|없음|нет|ninguno|aucun|keine)[\s\"'`)*\].!。]*|"
    rf".*\b(?:no|not|without|nothing|zero|n['’]t)\b.{{0,80}}?\b{_THINGS}\b.*|"
    rf".*\b(?:all|every)\b.{{0,60}}?\b{_THINGS}\b.{{0,60}}?\b(?:extracted|identified|captured|covered|listed|included)\b.*|"
    r".*(?:没有|未找到|未发现|沒有|見つかりません|ありません|없습니다).*",
    re.IGNORECASE | re.DOTALL,
)


class RefusalError(ValueError):
    """The model declined to answer; asking again in the same words is of little use."""

    status = "refused"


def is_refusal(text: str) -> bool:
    """Whether an answer declines to answer."""
    text = strip_reasoning(text)
    return len(text) <= _MAX_LENGTH and bool(_REFUSAL.search(text[:_MAX_START]))


def is_short(text: str) -> bool:
    """Whether an answer is too short to be a program or an essay; only a short one can be an honest nothing."""
    return len(strip_reasoning(text)) <= _MAX_LENGTH


def says_nothing_found(text: str) -> bool:
    """Whether an answer says in words that there is nothing (more) to report."""
    text = strip_reasoning(text)
    return 0 < len(text) <= _MAX_LENGTH // 2 and "```" not in text and bool(_NOTHING.fullmatch(text))
