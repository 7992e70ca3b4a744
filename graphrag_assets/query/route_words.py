"""Words by which questions of different kinds are told, in the languages that most questions come in.

They are read as signs, not as grammar: where no sign is found, the similarity to known questions or a model decides.
"""

from __future__ import annotations

import re


def _any(spaced: str, unspaced: str = "") -> re.Pattern[str]:
    """A pattern for words between word boundaries, or for characters of scripts that write no spaces."""
    found = rf"\b(?:{spaced})"
    return re.compile(f"(?:{found}|{unspaced})" if unspaced else found, re.IGNORECASE)


#: The collection as a whole: themes, overviews, what runs through all documents.
WHOLE = _any(
    # English
    r"themes?\b|overall\b|overview\b|in general\b|in total across\b|as a whole\b|across (?:all|the|these)\b|throughout\b"
    r"|all (?:of )?(?:the |these )?documents\b|whole (?:corpus|collection|story|affair|matter)\b"
    r"|runs? through (?:all|the|these)\b|(?:these|the) documents\b|this collection\b"
    r"|summar(?:y|ise|ize)\b|main (?:topics|points|issues|ideas|conflicts?|causes?|events|findings)\b"
    r"|most important\b|key (?:topics|points|issues|findings|events)\b"
    r"|trends?\b|common threads?\b|recurring\b|what kinds? of\b|in (?:what|which) (?:ways|respects)\b"
    r"|on (?:what|which) points\b|what parts? (?:do|does|did)\b"
    # German
    r"|themen\b|hauptthem|insgesamt\b|im ganzen\b|überblick\b|zusammenfass|fasse\b.*\bzusammen\b|wichtigsten?\b"
    r"|alle[nr]? dokumente|in den dokumenten\b|(?:grund|haupt)aussagen\b|leitmotiv|trends?\b|im allgemeinen\b"
    # French
    r"|thèmes?\b|thématiques?\b|résum|dans l'ensemble\b|vue d'ensemble\b|aperçu\b|principa(?:ux|les)\b|tendances?\b"
    r"|tous les documents\b|ces documents\b|en général\b"
    # Spanish, Portuguese, Italian
    r"|temas?\b|temi\b|resum(?:en|e|a|ir|o)\b|riassum|sintesi\b|en general\b|em geral\b|in generale\b|nel complesso\b"
    r"|en conjunto\b|no conjunto\b|principa(?:les|is)\b|principali\b|panorama\b|tendencias?\b|tendências?\b|tendenze\b"
    r"|(?:todos|estos|os|estes|tutti i|questi) documentos?\b|(?:tutti i|questi) documenti\b|visión general\b|visão geral\b"
    # Dutch, Scandinavian, Polish, Russian, Turkish
    r"|thema's\b|samenvat|overzicht\b|belangrijkste\b|teman\b|temaer\b|sammanfatt|sammenfat|översikt\b|viktigaste\b"
    r"|motywy\b|główne\b|streszcz|podsumuj|ogólnie\b|темы\b|тематик|основны[ех]\b|в целом\b|обзор\b|кратк|тенденци"
    r"|temalar|özetle|genel olarak\b|ana konular",
    # Japanese, Chinese, Korean
    r"主要な|主な(?:テーマ|論点|話題)|テーマ|全体|要約|まとめ|概要|傾向|共通|主题|主題|概述|概括|总结|總結|整体|整體|总体"
    r"|總體|主要(?:内容|內容|观点|觀點)|所有文档|趋势|趨勢|주제|요약|전체|전반|개요|경향",
)

#: Broad effects and changes, which many documents tell in parts.
BROAD = _any(
    r"how (?:did|does|do|has|have|had|was|were)\b.*\b(?:affect(?:ed)?|impact(?:ed)?|shape[ds]?|transform(?:ed)?"
    r"|chang(?:e|es|ed|ing)|evolve[ds]?|develop(?:ed)?|differ(?:ed)?|respond(?:ed)?|react(?:ed)?)\b"
    r"|(?:effects?|impacts?|consequences) of\b.*\bon\b|contradict|differ(?:ent|ence)s? (?:between|among) (?:the )?accounts\b"
    r"|wie (?:hat|haben|wirkte[n]?)\b.*\b(?:verändert|ausgewirkt|beeinflusst|entwickelt|aus)\b|auswirkungen\b"
    r"|conséquences\b|comment\b.*\b(?:changé|évolué|affecté|influencé)\b|consecuencias\b|cómo\b.*\b(?:cambi|afect|evolu)"
    r"|conseguenze\b|come\b.*\b(?:cambiat|influenzat)|consequências\b|gevolgen\b|последстви|как\b.*\b(?:изменил|повлиял)",
    r"影響|変化|どのように変|影响|变化|如何改变|영향|변화",
)

#: Who or what something is, and how things are related.
RELATION = _any(
    r"who (?:is|was|are|were)\b|tell me about\b|describe\b|relat(?:ed|ion|ions|ionship|ionships)\b|connect(?:ed|ion|ions)?\b"
    r"|link(?:ed|s)?\b|between\b|compare\b|role of\b|influence\b|involved\b|knows?\b"
    r"|wer (?:ist|war|sind|waren)\b|beziehung|verbunden\b|verbindung|zusammenhang\b|zwischen\b|rolle\b|verhältnis\b"
    r"|qui (?:est|était|sont|étaient)\b|relations?\b|lien\b|entre\b|rôle\b"
    r"|quién(?:es)? (?:es|era|son|fue)\b|relaci[oó]n|vínculo\b|papel\b|quem (?:é|era|foi|são)\b|relação\b|ligação\b"
    r"|chi (?:è|era|sono|fu)\b|relazion|legame\b|ruolo\b|tra\b|wie (?:is|was|zijn|waren)\b|relatie\b|verband\b|tussen\b"
    r"|vem (?:är|var)\b|hvem (?:er|var)\b|kim jest\b|kto to\b|związek\b|между\b|связ[ьани]|отношени|кто (?:такой|такая|был)",
    r"誰ですか|誰で|とは誰|関係|つながり|役割|是谁|是誰|关系|關係|联系|聯繫|之间|角色|누구|관계|역할",
)

#: Facts: a date, a number, a place, a name, in languages whose questions :mod:`graphrag_assets.text.asked` does not read.
FACT = _any(
    r"wann\b|wo\b|wie (?:viele?|lange|hoch|groß|weit|alt)\b|welche[rs]?\b|in welchem jahr\b|wem\b|wer\b"
    r"|quand\b|où\b|combien\b|quel(?:le)?s? (?:année|date|jour|prix)\b|qui\b"
    r"|cuándo\b|dónde\b|cuánt[oa]s?\b|quién\b|quando\b|onde\b|quant[oaie]s?\b|quem\b|dove\b|chi\b"
    r"|wanneer\b|waar\b|hoeveel\b|när\b|hvornår\b|kiedy\b|gdzie\b|ile\b|когда\b|где\b|сколько\b|кто\b",
    r"いつ|どこ|いくつ|いくら|何年|何人|何日|誰が|什么时候|何时|何時|哪里|哪裡|多少|几|幾|谁|誰|언제|어디|얼마|몇|누가",
)

#: Questions of each kind, to which others are compared by their embeddings.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "basic": (
        "When was the bridge opened?",
        "How many people worked at the factory?",
        "What did the committee decide about the proposal?",
        "What is the name of the ship that sank?",
        "What colour was the door of the house?",
        "How much did the repair cost?",
        "What does the letter say about the payment?",
        "Where was the meeting held?",
        "What did he find in the drawer?",
        "Which rule applies to late deliveries?",
    ),
    "local": (
        "Who is the director of the company?",
        "Tell me about this person and their work.",
        "How are these two people connected?",
        "What is the relationship between the company and its supplier?",
        "What role did the engineer play in the project?",
        "What is known about this place?",
        "Which organisations did she work with?",
    ),
    "global": (
        "What are the main themes in these documents?",
        "Summarise the most important findings.",
        "How did the war change daily life in the region?",
        "What trends can be seen over the years?",
        "In what ways did institutions fail to act on what they knew?",
        "What do the different accounts agree and disagree on?",
        "What role does memory play in these stories?",
        "How did power shift between the groups over time, and why?",
        "What lessons can be drawn from all of this?",
    ),
}
