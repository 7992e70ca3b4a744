#!/usr/bin/env python3
# ruff: noqa
# fmt: off
"""llmsim - a deterministic, OpenAI-compatible LLM + embedding simulator (one file).

Why: GraphRAG systems make thousands of LLM calls. To benchmark and to test them without a model we need
an endpoint that (1) speaks the OpenAI HTTP protocol, (2) is deterministic, (3) answers every kind of GraphRAG
prompt with output that is *derived from the text in the prompt* (so graphs look like graphs), (4) can be slow, rate
limited or faulty in precisely controlled ways, and (5) is far faster than anything it serves.

    python llmsim.py --port 8400 --latency 0.2 --fault error500=0.02,malformed_json=0.05 --seed 7

Endpoints   POST /v1/chat/completions (stream or not, tools, response_format), POST /v1/completions,
            POST /v1/embeddings (float|base64, `dimensions`), GET /v1/models, GET /health,
            GET /stats, POST /reset, GET|POST /config (change any option of a running server).
Determinism The answer is a pure function of (messages, model, response_format, tools). The fault drawn is a pure function
            of (seed, request hash, n) where n = how often this exact request was seen since /reset, so a retry may succeed.
Tokens      tokens(text) = ceil(len(text) / 4) characters; 4 more per chat message. Cheap, documented, tokenizer-free.

Needs aiohttp; uses uvloop, orjson and numpy when present.  See README.md for all options.
"""
from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import math
import mmap
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time
import zlib
from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from functools import lru_cache

from aiohttp import web

try:
    import numpy as np
except ImportError:  # pragma: no cover - embeddings then run in pure Python (about 20x slower)
    np = None
try:
    import orjson

    def jdumps(o) -> bytes:
        return orjson.dumps(o, option=orjson.OPT_SERIALIZE_NUMPY)

    jloads = orjson.loads
except ImportError:  # pragma: no cover

    def jdumps(o) -> bytes:
        return json.dumps(o, default=lambda x: x.tolist(), ensure_ascii=False, separators=(",", ":")).encode()

    jloads = json.loads

# ---------------------------------------------------------------------------------------------------------------------
# 1. Configuration. Everything in DEFAULTS is a command-line option (--max-entities ...) and a key of POST /config.
# ---------------------------------------------------------------------------------------------------------------------
DEFAULTS = {
    # latency model: latency + per_input_token*in + per_output_token*out, times (1 +- jitter), times slow_factor on a "slow" fault
    "latency": 0.0, "per_input_token": 0.0, "per_output_token": 0.0, "jitter": 0.0,
    "embed_latency": None,          # None: same as latency
    "kind_latency": {},             # {"report": 2.0, "embedding": 0.05}: base latency by kind of task
    # limits
    "max_concurrency": 0,           # 0 = none. Over it: 429 (over_limit=reject) or wait (over_limit=queue)
    "over_limit": "reject",
    "rpm": 0, "tpm": 0,             # requests / tokens per minute, token bucket that holds `burst` seconds worth
    "burst": 2.0,
    "retry_after": 0.0,             # seconds to say in Retry-After; 0 = the time until the bucket has room
    "context_window": 0,            # tokens; more -> 400 context_length_exceeded. 0 = unlimited
    "api_key": "",                  # when set, other keys get 401
    # faults
    "faults": {},                   # {"error500": 0.02, ...}; see FAULTS
    "seed": 0,
    "fault_kinds": [],              # only for these kinds of task (empty: all)
    "fault_attempts": 0,            # draw faults only in the first k attempts of a request. 0 = in every attempt
    "poison": "",                   # regex; requests whose text matches always get `poison_fault`
    "poison_fault": "error500",
    "timeout_seconds": 600.0, "slow_factor": 10.0,
    # content
    "dim": 1536,                    # embedding size when the request does not ask for one
    "max_entities": 16, "max_relations": 20,   # per extraction; a gleaning turn adds at most half as many
    "concepts": 1,                  # 1: fill up with frequent common nouns when a text has few names (novels); 0: names only
    "glean_yes": 0.0,               # share of yes/no gleaning checks answered "yes" (deterministic by request)
    "report_findings": 5,
    "cache": 20000,                 # answers kept (LRU) so identical requests cost little; 0 = off
    "log": "",                      # JSONL file, one line per request (t, kind, status, tokens, latency, hash, attempt, fault)
    "models": ["gpt-4o", "gpt-4o-mini", "gpt-4.1", "text-embedding-3-small", "text-embedding-3-large", "llmsim"],
}

# fault name -> what the client sees
FAULTS = {
    "error400": "HTTP 400 invalid_request_error", "error401": "HTTP 401", "error404": "HTTP 404 model_not_found",
    "error429": "HTTP 429 + Retry-After", "error500": "HTTP 500", "error502": "HTTP 502 with an HTML body",
    "error503": "HTTP 503 overloaded", "context_length": "HTTP 400 context_length_exceeded",
    "content_filter": "finish_reason=content_filter and empty content",
    "timeout": "no answer for timeout_seconds, then the connection closes", "slow": "slow_factor x the latency",
    "drop": "connection reset before any byte", "drop_mid": "connection reset in the middle of the body",
    "truncated": "content cut at 60 %, finish_reason=stop", "length": "content cut at 60 %, finish_reason=length",
    "malformed_json": "JSON damaged (tuples: unbalanced)", "fenced": "answer inside ```json fences with a preface",
    "prose": "prose before and after the answer", "garbage": "garbage records mixed in / nonsense instead of JSON",
    "wrong_delims": "records with translated or doubled delimiters; JSON with single quotes",
    "empty": "empty string", "null_content": "content is null", "refusal": "a refusal text (and `refusal` field for schemas)",
    "bad_json_body": "HTTP 200 whose HTTP body is not JSON", "bad_schema": "valid JSON of another shape",
    "embed_short": "one vector fewer than inputs", "embed_nan": "null / NaN in a vector", "embed_dim": "vectors of half the dimension",
}
KINDS = ["extract", "glean", "glean_check", "summarize", "claims", "report", "map", "reduce", "local", "basic",
         "drift_primer", "drift_local", "rate", "keywords", "questions", "resolve", "hyde", "schema", "chat", "embedding", "profile"]
KIND_NO = {k: i for i, k in enumerate(KINDS)}


def tokens(text: str) -> int:
    return (len(text) + 3) // 4


def h64(*parts) -> int:
    """64-bit hash that is stable between processes and versions."""
    h = hashlib.blake2b(digest_size=8)
    for p in parts:
        h.update(p if isinstance(p, bytes) else str(p).encode("utf-8", "surrogatepass"))
        h.update(b"\x1f")
    return int.from_bytes(h.digest(), "little")


def unit(*parts) -> float:
    """Deterministic number in [0, 1)."""
    return h64(*parts) / 2.0**64


# ---------------------------------------------------------------------------------------------------------------------
# 2. Text understanding: the payload inside a prompt, entities, relations. All regexes are linear-time.
# ---------------------------------------------------------------------------------------------------------------------
STOP = frozenset("""a an and are as at be been but by can could did do does for from had has have he her hers him his how i if in
into is it its may me might more most must my no nor not of on one or our out over said shall she should so some such than that the
their them then there these they this those to too up upon very was we were what when where which while who whom why will with would
yes you your yours again all also always am any because before being both each ever every few first here however just let like many
much never new now off oh old once only other own same see still take thank though through thus till under until us want well yet
after against although among another around away back come go good got great make made mine nay nothing perhaps please quite rather
since something sometimes suppose therefore two three four five six seven eight nine ten chapter illustration""".split())
_CAP = re.compile(r"[A-Z][\w'’&]*(?:-\w+)*(?:\.(?=\s[A-Z]))?(?:[ \t\n]+(?:of|the|de|von|van|for|and|&)(?=[ \t\n]+[A-Z])|[ \t\n]+[A-Z][\w'’&]*(?:-\w+)*)*")
_CONCEPT = re.compile(r"\b[a-z]{6,}(?:-[a-z]+)?\b")
_NOTNOUN = ("ly", "ing", "ed", "ous", "ful", "ive", "able", "ible", "est", "selves", "self", "ward", "wards", "less", "ish")
_SENT = re.compile(r"[.!?;:][\"'”’)]*\s+|[。！？；]|\n\s*\n")
_CJK = re.compile(r"[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]{2,}")
_WS = re.compile(r"\s+")
_BAD = re.compile(r"<\|.*?\|?>|##|[<>|\"]")   # never let record delimiters leak into descriptions
_TITLES = re.compile(r"^(?:mr|mrs|ms|miss|dr|sir|lady|lord|king|queen|prince|captain|uncle|aunt|professor|president)\b", re.I)
_ORG = re.compile(r"\b(?:inc|corp|company|co|ltd|bank|university|institute|committee|college|group|agency|foundation|ministry|"
                  r"department|council|association|office|exchange|union|society|school|archive|project)\b", re.I)
_GEO = re.compile(r"\b(?:street|city|town|london|england|states|river|lane|road|island|county|country|town|sea|mount|valley|house|"
                  r"square|bridge|hall|court|america|africa|europe|asia|china|france)\b", re.I)
_EVT = re.compile(r"\b(?:day|eve|war|battle|christmas|festival|summit|meeting|party|dinner|year|march|conference|treaty)\b", re.I)


@lru_cache(maxsize=16384)
def _guess_type(name: str, types: tuple) -> str:
    low = {t.lower(): t for t in types}
    for rx, wanted in ((_TITLES, ("person",)), (_EVT, ("event",)), (_ORG, ("organization", "organisation")), (_GEO, ("geo", "location", "place"))):
        if rx.search(name):
            for w in wanted:
                if w in low:
                    return low[w]
    return types[h64("type", name.lower()) % len(types)] if types else "CONCEPT"


def guess_type(name: str, types) -> str:
    """The type of an entity: cue words first, else a stable choice by the hash of its name."""
    return _guess_type(name, tuple(types))


@lru_cache(maxsize=16384)
def titled(s: str) -> str:
    return " ".join(w[:1].upper() + w[1:].lower() for w in s.split())


@lru_cache(maxsize=16384)
def clean(s: str, n: int = 220) -> str:
    s = _WS.sub(" ", _BAD.sub(" ", s)).strip()
    return s if len(s) <= n else s[:n].rsplit(" ", 1)[0]


class Material:
    """Entities, relations, sentences found in a text. Computed lazily; everything is deterministic."""

    def __init__(self, text: str, query="", types: list[str] | None = None, concepts: int = 0):
        self.text, self._query, self.concepts = text, query, concepts   # query: a string, or a function that returns it
        self.types = types or ["organization", "person", "geo", "event"]
        self._ents = None
        self._rels = None
        self._sents = None
        self._starts: list[int] = []     # where each sentence starts in the text (not for tables)

    @property
    def query(self) -> str:
        if callable(self._query):
            self._query = self._query()
        return self._query

    @property
    def sentences(self) -> list[str]:
        if self._sents is None:
            t = self.text
            if t.startswith(("-----", "id|", "id,", "human_readable_id")) or "\n-----" in t:
                sents = [r[2].strip() for r in _ROW.findall(t) if len(r[2].strip()) > 2]    # a context table: its text columns
                if sents:
                    self._sents = sents
                    return sents
            pos, sents, starts = 0, [], []
            for m in _SENT.finditer(t):
                e = m.start()
                if e - pos > 2:
                    sents.append(t[pos: e + 1])
                    starts.append(pos)
                pos = m.end()
            if len(t) - pos > 2:
                sents.append(t[pos:])
                starts.append(pos)
            self._sents, self._starts = (sents, starts) if sents else ([t.strip() or "no text"], [0])
        return self._sents

    def _scan(self):
        sents = self.sentences
        if not self._starts:                       # a table: scan the joined columns
            self.text = "\n".join(sents)
            self._starts, p = [], 0
            for x in sents:
                self._starts.append(p)
                p += len(x) + 1
        text, starts = self.text, self._starts
        count: dict[str, int] = {}
        mid: set[str] = set()            # names seen elsewhere than at the start of a sentence
        first: dict[str, int] = {}       # name -> number of the first sentence
        in_sent: dict[int, list[str]] = {}
        for m in _CAP.finditer(text):
            words = m.group().split()
            at = m.start()
            i = bisect_right(starts, at) - 1
            at_start = at - starts[i] <= 1
            a, b = 0, len(words)
            while a < b and words[a].lower() in STOP:          # "But Scrooge" -> "Scrooge"
                a += 1
                at_start = False
            while a < b and words[b - 1].lower().rstrip(".'’-") in STOP:
                b -= 1
            if a == b:
                continue
            last = words[b - 1].rstrip(".'’-")
            if last.endswith(("'s", "’s")):
                last = last[:-2]
            b = min(b, a + 5)
            key = (last if b - a == 1 else " ".join(words[a: b - 1]) + " " + last).upper()
            if len(key) < 3:
                continue
            if key in count:
                count[key] += 1
            else:
                count[key] = 1
                first[key] = i
            if not at_start or b - a > 1:
                mid.add(key)
            names = in_sent.get(i)
            if names is None:
                in_sent[i] = [key]
            elif key not in names:
                names.append(key)
        if not count:                                               # no Latin capitals: take runs of CJK characters
            for m in _CJK.finditer(text):
                i = bisect_right(starts, m.start()) - 1
                key = m.group()[: 2 + zlib.crc32(m.group().encode()) % 3]
                count[key] = count.get(key, 0) + 1
                mid.add(key)
                first.setdefault(key, i)
                names = in_sent.setdefault(i, [])
                if key not in names and len(names) < 4:
                    names.append(key)
        ok = mid
        want = self.concepts - len(ok)
        if want > 0:                                                # common nouns ("concepts") fill up, the way real LLMs do
            freq = Counter(_CONCEPT.findall(text))
            cand = sorted(((-c, -len(w), w) for w, c in freq.items() if w not in STOP and not w.endswith(_NOTNOUN)))[:want]
            for c, _, w in cand:
                key, p, n = w.upper(), text.find(w), len(w)
                while p >= 0:
                    i = bisect_right(starts, p) - 1
                    first.setdefault(key, i)
                    names = in_sent.setdefault(i, [])
                    if key not in names:
                        names.append(key)
                    p = text.find(w, p + n)
                ok.add(key)
                count[key] = count.get(key, 0) - c
        # most frequent first, ties by first appearance (dicts keep insertion order, sort is stable)
        self._ents = [(k, sents[first[k]]) for k, _ in sorted(((k, c) for k, c in count.items() if k in ok), key=lambda kc: -kc[1])]
        rel: dict[tuple[str, str], list] = {}
        for i in sorted(in_sent):
            names = [n for n in in_sent[i] if n in ok][:5]
            for x in range(len(names) - 1):
                for y in range(x + 1, len(names)):
                    k = (names[x], names[y]) if names[x] < names[y] else (names[y], names[x])
                    r = rel.get(k)
                    if r is None:
                        rel[k] = [1, i]
                    else:
                        r[0] += 1
        self._rels = [(a, b, sents[i], min(10, 3 + 2 * n)) for (a, b), (n, i) in sorted(rel.items(), key=lambda kv: -kv[1][0])]

    @property
    def entities(self) -> list[tuple[str, str]]:
        """(NAME, the sentence where it first occurs), most frequent first."""
        if self._ents is None:
            self._scan()
        return self._ents

    @property
    def relations(self) -> list[tuple[str, str, str, int]]:
        """(A, B, first sentence with both, strength), most frequent pairs first."""
        if self._rels is None:
            self._scan()
        return self._rels

    def relevant(self, k: int, n: int = 240) -> list[str]:
        """The k sentences of the text with the most words of the query (ties: text order)."""
        q = {w for w in re.findall(r"\w{3,}", self.query.lower()) if w not in STOP}
        sents = self.sentences[:600]
        if q:
            sents = sorted(sents, key=lambda s: -sum(w in s.lower() for w in q))
        return [clean(s, n) for s in sents[:k]] or ["no relevant information"]

    def overlap(self) -> float:
        q = {w for w in re.findall(r"\w{4,}", self.query.lower()) if w not in STOP}
        if not q:
            return 0.5
        low = self.text.lower()
        return sum(w in low for w in q) / len(q)


_TAGGED = re.compile(r"<(text|document|input|chunk|passage|source|data|context)\b[^>]*>(.*?)</\1>", re.S | re.I)
_HARD = ("<<document_start>>", "---input text---", "-real data-", "# real data", "---data tables---", "---analyst reports---", "---data reports---",
         "---information---", "---context---", "---data---", "-data-", "description list:", "community summaries:", "-input-\n")
_SOFT = re.compile(r"^\W{0,4}(?:input[ _]?text|text|document|passage|input|content|chunk|source text|description list)\W{0,3}:", re.I | re.M)
_SOFTS = tuple(f"\n{w}:" for w in ("text", "input text", "input_text", "document", "passage", "input", "content", "chunk", "source text", "**document**", "**text**"))
_ENDS = ("<<document_end>>", "\n#####", "\n---goal", "\noutput:", "\n---output", "\n---target response", "\nthe report should include", "\n# grounding",
         "\nreturn output as", "\nprovide the intermediate answer", "\nanswer:", "\nbegin:", "\n# output", "\n## output", "\n---question---")


@lru_cache(maxsize=8)
def payload(prompt: str) -> str:
    """The data part of a prompt: tagged block, or what follows the last data marker, without few-shot examples."""
    if "</" in prompt:
        tagged = None
        for tagged in _TAGGED.finditer(prompt):
            pass
        if tagged and len(tagged.group(2).strip()) > 20:
            return tagged.group(2).strip()
    low = prompt.lower()
    if len(low) != len(prompt):        # some characters change length in lower case; then positions would be wrong
        low = prompt
    pos = -1
    for mk in _HARD:
        p = low.rfind(mk)
        if p >= 0:
            pos = max(pos, p + len(mk))
    if pos >= 0:                       # after a hard marker there may be "Text:" within the next few lines
        for m in _SOFT.finditer(low, pos, min(len(low), pos + 400)):
            pos = m.end()
    else:
        for mk in _SOFTS:
            p = low.rfind(mk)
            if p >= 0:
                pos = max(pos, p + len(mk))
        pos = max(pos, 0)
    end = len(prompt)
    for mk in _ENDS:
        p = low.find(mk, pos + 1, end)
        if p > pos:
            end = p
    return prompt[pos:end].strip().strip("`").strip()


_TYPES = re.compile(r"entity[_ ]types?\W{0,6}[:=]\s*\[?([^\n\]]{3,300})", re.I)
_TYPES2 = re.compile(r"following types\W*:?\s*\[([^\n\]]{3,300})\]", re.I)
_TYPES3 = re.compile(r"^-\s+([A-Z][A-Za-z]{2,20}):\s", re.M)


def entity_types(prompt: str) -> list[str]:
    """The entity types that a prompt asks for: the last `Entity_types: a, b` (the first ones belong to examples), or a bulleted list."""
    low = prompt.lower()
    low = low if len(low) == len(prompt) else prompt
    end = len(low)
    for _ in range(6):
        p = max(low.rfind("entity_type", 0, end), low.rfind("entity type", 0, end))
        if p < 0:
            break
        m = _TYPES.match(prompt, p)
        if m:
            ts = [t.strip(" '\"`*\t{}") for t in re.split(r"[,;|]", m.group(1))]
            ts = [t for t in ts if t and len(t) < 40]
            if ts:
                return ts
        end = p
    p = low.find("following types")
    m = _TYPES2.match(prompt, p) if p >= 0 else None
    if m:
        return [t.strip() for t in m.group(1).split(",")]
    p = prompt.find("Entity Types---")
    return _TYPES3.findall(prompt, p)[:20] if p >= 0 else []


# ---------------------------------------------------------------------------------------------------------------------
# 3. Which task is this? Rules on distinctive phrases; override with a header `x-llmsim-kind` or `[[kind:NAME]]` in the prompt.
# ---------------------------------------------------------------------------------------------------------------------
_YESNO = re.compile(r"\b(?:yes|y)\b\W{0,4}(?:\||/|or|and|,)?\W{0,4}(?:if .{0,120}? )?\W{0,4}(?:\bor\b )?\W{0,4}\b(?:no|n)\b", re.I | re.S)
_NQUEST = re.compile(r"(?:generate|write|suggest|propose|list)\W+(?:\w+\W+){0,5}\d+\W+(?:\w+\W+){0,3}questions")
_FORCED = re.compile(r"\[\[kind:(\w+)\]\]")


def detect(full: str, last: str, n_assistant: int) -> str:
    m = _FORCED.search(full)
    if m and m.group(1) in KIND_NO:
        return m.group(1)
    ll = last.lower() if len(last) < 6000 else (last[:3000] + last[-3000:]).lower()
    if n_assistant and ("missed" in ll or "gleaning" in ll or "retrospectively" in ll or "have been correctly identified" in ll):
        if _YESNO.search(ll) or "answer done if so" in ll:
            return "glean_check"
        return "glean"
    f = full.lower()
    has = f.__contains__
    if has('"persona"') and has('"entity_types"'):
        return "profile"
    if has("intermediate_answer") and has("follow_up_quer"):
        return "drift_primer"
    if has("follow_up_quer") and (has("'response'") or has('"response"')):
        return "drift_local"
    if has("high_level_keywords") or has("keyword extractor") or (has("extract all entities relevant to perform information retrieval")):
        return "keywords"
    if (has("scale from 0 to 5") or has("rate how relevant") or has("relevance rating") or has("relevancy rating")) and has("rating"):
        return "rate"
    if has("claim") and (has("claim description") or has("claim_description") or has("claim type")):
        return "claims"
    if (has("entity_name") or has('"entity"') or has("extract entities") or has("identify all entities") or has("extract all entities")
            or has("entities and relationships") or (has('"entities"') and has('"relationships"'))) and has("relation") \
            and not (has("findings") and has("communit")) and not has("data tables") and not has("knowledge graph data"):
        return "extract"
    if has("communit") and (has("findings") or has("report")) and (has("rating") or has("summary")) and not has('"points"') and not has("data tables---"):
        if not has("hypothetical answer"):
            return "report"
    if has('"points"') and has("score"):
        return "map"
    if has("hypothetical answer"):
        return "hyde"
    if has("multiple analysts") or has("analyst reports") or has("data reports---"):
        return "reduce"
    if has("questions") and (has("candidate questions") or has("bulleted list of") or _NQUEST.search(f)) and not has("knowledge graph data"):
        return "questions"
    if has("data tables") or has("knowledge graph data"):
        return "basic" if (has("sources") and not has("-----entities") and not has("-----reports") and not has("knowledge graph data")) else "local"
    if has("description list") or (has("summar") and has("description") and (has("entities:") or has("entity"))) or has("summary of the data provided"):
        return "summarize"
    if (has("same entity") or has("refer to the same") or has("same real-world") or has("duplicate")) and (_YESNO.search(f) or has("true or false") or has("entit")):
        return "resolve"
    if has("document chunks") or has("sources") or has("knowledge you know") or has("input data"):
        return "basic"
    return "chat"


# ---------------------------------------------------------------------------------------------------------------------
# 4. Answers by kind
# ---------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=256)
def shared_material(text: str, types: tuple, concepts: int) -> Material:
    """Gleaning turns, retries and claims look at the same text again: keep what was found in it."""
    return Material(text, "", list(types), concepts)


class Ctx:
    """One request, taken apart."""

    __slots__ = ("messages", "system", "users", "assistants", "last", "full", "kind", "schema", "schema_name", "json_mode", "hash", "_mat", "cfg")

    def __init__(self, body: dict, cfg: dict):
        self.cfg = cfg
        self.system, self.users, self.assistants = [], [], []
        for m in body.get("messages") or []:
            c = m.get("content")
            if isinstance(c, list):     # content parts
                c = "\n".join(p.get("text", "") for p in c if isinstance(p, dict))
            c = c or ""
            role = m.get("role")
            (self.assistants if role == "assistant" else self.system if role in ("system", "developer") else self.users).append(c)
        self.last = self.users[-1] if self.users else (self.system[-1] if self.system else "")
        self.full = "\n".join(self.system + self.users)
        self.schema, self.schema_name, self.json_mode = None, "", False
        rf = body.get("response_format")
        if isinstance(rf, dict):
            if rf.get("type") == "json_schema":
                js = rf.get("json_schema") or {}
                self.schema, self.schema_name = js.get("schema") or {}, js.get("name", "")
                self.json_mode = True
            elif rf.get("type") == "json_object":
                self.json_mode = True
        self._mat = None
        self.kind = "chat"

    @property
    def main(self) -> str:
        """The prompt that holds the data: for gleaning turns it's the first user message."""
        if self.kind in ("glean", "glean_check"):
            return self.users[0] if len(self.users) > 1 or not self.system else (self.system[-1])
        return self.last if len(self.last) >= 200 or not self.system else self.full

    @property
    def mat(self) -> Material:
        if self._mat is None:
            full_size = self.cfg["max_entities"] * 3 // 2 if self.cfg["concepts"] else 0
            self._mat = shared_material(payload(self.main) or self.last, tuple(entity_types(self.full)), full_size)
            self._mat._query = lambda: self.query
        return self._mat

    @property
    def query(self) -> str:
        if self.system and self.users and len(self.last) < 1500 and "\n\n" not in self.last:
            return self.last[:500]
        for rx in (r"for the query:\s*\n+(.+)", r"user query\W*:\s*(.+)", r"-+\s*(?:user query|question)\s*-+\s*\n(.+)", r"^query\W*:?\s*(.+)", r"^question\W*:?\s*(.+)"):
            found = re.findall(rx, self.full[-4000:] if len(self.full) > 4000 else self.full, re.I | re.M)
            if found:
                return found[-1].strip()[:500]
        return self.last[:500] if len(self.last) < 2000 else self.last[-300:]


_DELIM = re.compile(r'\(?"?entity"?([^\w\s(){}"]{1,10}?)[<{]?(?:entity_)?name', re.I)
_COMPL = re.compile(r"<\|[A-Z_]+\|>")


def rec_format(full: str):
    m = _DELIM.search(full)
    delim = m.group(1) if m else "<|>"
    plain = bool(m) and not m.group().startswith("(") and '"' not in m.group()
    comp = _COMPL.findall(full)
    if plain:
        return delim, "\n", "", "", "relation", comp[-1] if comp else "<|COMPLETE|>"
    m = re.search(r"use \*\*(\S{1,6})\*\* as the list delimiter", full, re.I)
    return delim, "\n" + (m.group(1) if m else "##") + "\n", "(", ")", "relationship", comp[-1] if comp else "<|COMPLETE|>"


def pick(c: Ctx, glean: bool):
    """Entities and relations for an extraction (first pass) or a gleaning turn (what the first pass left)."""
    me, mr = c.cfg["max_entities"], c.cfg["max_relations"]
    ents, rels = c.mat.entities, c.mat.relations
    if glean:
        e = ents[me: me + me // 2]
        names = {n for n, _ in ents[: me + me // 2]}
        done = {n for n, _ in ents[:me]}
        first = [r for r in rels if r[0] in done and r[1] in done]
        r = first[mr: mr + mr // 4] + [r for r in rels if r[0] in names and r[1] in names and not (r[0] in done and r[1] in done)][: mr // 4]
        return e, r
    e = ents[:me]
    names = {n for n, _ in e}
    return e, [r for r in rels if r[0] in names and r[1] in names][:mr]


def do_extract(c: Ctx, glean: bool = False) -> str:
    ents, rels = pick(c, glean)
    types = c.mat.types
    full = c.full
    if c.json_mode or ('"entities"' in full and '"relationships"' in full and "json" in full.lower() and "<|" not in full):
        return json.dumps({
            "entities": [{"name": titled(n), "type": guess_type(n, types), "description": f"{titled(n)}: {clean(s)}"} for n, s in ents],
            "relationships": [{"source": titled(a), "target": titled(b), "keywords": "association", "description": f"{titled(a)} and {titled(b)}: {clean(s)}",
                               "weight": w} for a, b, s, w in rels]}, ensure_ascii=False)
    d, rec, o, cl, relword, comp = rec_format(full)
    out = []
    if o:   # Microsoft style
        for n, s in ents:
            out.append(f'("entity"{d}{n}{d}{guess_type(n, types).upper()}{d}{titled(n)}: {clean(s)})')
        for a, b, s, w in rels:
            out.append(f'("relationship"{d}{a}{d}{b}{d}{titled(a)} and {titled(b)} are related: {clean(s)}{d}{w})')
        return rec.join(out) + ("\n" if out else "") + comp
    for n, s in ents:   # LightRAG style
        out.append(f"entity{d}{titled(n)}{d}{guess_type(n, types)}{d}{titled(n)}: {clean(s)}")
    for a, b, s, w in rels:
        out.append(f"{relword}{d}{titled(a)}{d}{titled(b)}{d}association, {['meeting', 'family', 'conflict', 'trade', 'travel'][h64(a, b) % 5]}{d}"
                   f"{titled(a)} and {titled(b)}: {clean(s)}")
    return "\n".join(out) + "\n" + comp


def do_claims(c: Ctx, glean: bool = False) -> str:
    d, rec, o, cl, _, comp = rec_format(c.full)
    if glean:
        return comp
    out = []
    for a, b, s, w in c.mat.relations[:4]:
        st = ("TRUE", "SUSPECTED", "FALSE")[h64(a, b) % 3]
        y = 1800 + h64(b, a) % 220
        out.append(f"({a}{d}{b}{d}ASSOCIATION{d}{st}{d}{y}-01-01T00:00:00{d}{y}-12-31T00:00:00{d}{titled(a)} is associated with {titled(b)}{d}{clean(s)})")
    return rec.join(out) + ("\n" if out else "") + comp


def do_summarize(c: Ctx) -> str:
    full = c.full
    m = re.search(r"(?:length|limit|exceed)\D{0,40}(\d{2,5})\s*(words|tokens)", full, re.I)
    limit = min(int(m.group(1)) if m else 120, 120)
    m = re.search(r"(?:entities|entity name|relation name|entity|name|description_name)\s*:\s*(.+)", full, re.I)
    name = clean(m.group(1), 120) if m else "The subject"
    body = payload(c.main)
    parts, seen = [], set()
    for p in re.split(r"(?<=[.!?])\s+|\n|\", \"|', '|<SEP>", body):
        p = clean(p, 160).strip("[]'{}, ")
        if len(p) > 8 and p.lower() not in seen:
            seen.add(p.lower())
            parts.append(p)
    return " ".join((f"{name}: " + " ".join(parts)).split()[:limit]) or name


_ROW = re.compile(r"^\s*\"?(\d+)\"?\s*[,|\t]\s*\"?([^,|\t\"\n]{2,80})\"?[,|\t]?(.*)$", re.M)
_ROWID = re.compile(r"^\s*\"?(\d+)\"?\s*[,|\t]\s*\"?([^,|\t\"\n]{2,80})", re.M)


@lru_cache(maxsize=8)
def rows(text: str) -> list[tuple[str, str]]:
    return _ROWID.findall(text)


def report_obj(c: Ctx) -> dict:
    text = payload(c.main)
    rs = rows(text)
    if rs:
        names = list(OrderedDict.fromkeys(n.strip() for _, n in rs))[:8]
        ids = [i for i, _ in rs]
    else:
        names = [n for n, _ in c.mat.entities[:8]]
        ids = []
    names = names or ["COMMUNITY"]
    t = [titled(n) for n in names]
    key = h64(*names[:3], len(rs))
    sents = [clean(s, 200) for s in c.mat.sentences[:40]]
    ref = f" [Data: Entities ({', '.join(ids[:5])}{', +more' if len(ids) > 5 else ''})]" if ids else ""
    finds = []
    for i in range(c.cfg["report_findings"]):
        n = t[i % len(t)]
        s = sents[(key + i * 7) % len(sents)] if sents else n
        finds.append({"summary": f"{n} and its place in the community",
                      "explanation": f"{n} is connected with {t[(i + 1) % len(t)]} and {t[(i + 2) % len(t)]}. The sources say: {s}. "
                                     f"This matters for an understanding of {t[0]} because the same names recur in the records.{ref}"})
    return {"title": " and ".join(t[:2]) if len(t) > 1 else f"{t[0]} Community",
            "summary": f"The community is centred on {t[0]} and contains {', '.join(t[1:5]) or 'no other entity'}. " + " ".join(sents[:2]),
            "rating": round(1 + 9 * ((key % 97) / 97), 1),
            "rating_explanation": f"The rating reflects how many records mention {t[0]}.", "findings": finds}


def map_obj(c: Ctx) -> dict:
    text = payload(c.main) if not c.system else payload(c.system[-1])
    mat = Material(text, c.query)
    rs = rows(text)
    pts = []
    base = mat.overlap()
    for i, s in enumerate(mat.relevant(5)):
        ref = f" [Data: Reports ({', '.join(x for x, _ in rs[i * 2: i * 2 + 2] or rs[:1])})]" if rs else ""
        pts.append({"description": s + ref, "score": max(1, int(100 * base) - 7 * i - int(8 * unit("pt", s)))})
    return {"points": pts}


def answer_md(c: Ctx, head: str = "Answer") -> str:
    text = payload(c.system[-1]) if c.system else payload(c.main)
    mat = Material(text, c.query)
    rs = rows(text)
    lines = []
    for i, s in enumerate(mat.relevant(6)):
        ref = f" [Data: Sources ({', '.join(x for x, _ in rs[i * 3: i * 3 + 3])})]" if rs[i * 3:] else ""
        lines.append(f"{s}{ref}.")
    return f"## {head}\n\n**Question.** {clean(c.query, 200)}\n\n" + "\n\n".join(lines)


def questions(c: Ctx, n: int) -> list[str]:
    names = [titled(x) for x, _ in (Material(payload(c.system[-1]) if c.system else c.full, "").entities[:12])] or ["the subject"]
    forms = ("What is the role of {a}?", "How is {a} related to {b}?", "Why does {a} matter for {b}?", "When did {a} meet {b}?", "What happened to {a}?")
    return [forms[i % 5].format(a=names[i % len(names)], b=names[(i + 1) % len(names)]) for i in range(n)]


def keywords_obj(c: Ctx) -> dict:
    m = re.findall(r"user query\W*:?\s*(.+)|^query\s*:\s*(.+)", c.full, re.I | re.M)
    q = (m[-1][0] or m[-1][1]) if m else c.last
    caps = [x for x in (w.group().strip() for w in _CAP.finditer(q)) if x.lower() not in STOP and x.split()[0].lower() not in ("what", "who", "how", "why", "which", "where", "when")]
    words = [w for w in re.findall(r"\w{4,}", q.lower()) if w not in STOP]
    return {"high_level_keywords": list(OrderedDict.fromkeys(words))[:5], "low_level_keywords": (list(OrderedDict.fromkeys(caps)) or words)[:6]}


def same_name(a: str, b: str) -> bool:
    x, y = (set(re.findall(r"\w+", s.lower())) - {"mr", "mrs", "the", "dr", "sir", "of", "inc", "corp"} for s in (a, b))
    return bool(x and y) and (x == y or (len(x & y) / min(len(x), len(y)) >= 1.0 and max(len(x), len(y)) - min(len(x), len(y)) <= 1))


_PAIR = re.compile(r"^\W*(\d+)\W+(.+?)\s*(?:\||<->|=\?|\bvs\.?\b|\band\b|,)\s*(.+?)\s*$", re.M | re.I)


def do_resolve(c: Ctx) -> str:
    q = re.findall(r"[\"“'`]([^\"”'`\n]{2,80})[\"”'`]", c.last)
    if len(q) == 2:
        return "YES" if same_name(*q) else "NO"
    ps = _PAIR.findall(c.last)
    if ps:
        return "\n".join(f"{i}. {'YES' if same_name(a.strip(chr(34)), b.strip(chr(34))) else 'NO'}" for i, a, b in ps)
    m = re.search(r"(?:a|1|first|left)\W*:\s*(.+)\n\W*(?:b|2|second|right)\W*:\s*(.+)", c.last, re.I)
    if m:
        return "YES" if same_name(m.group(1), m.group(2)) else "NO"
    return "YES" if len(q) > 2 and same_name(q[-2], q[-1]) else "NO"


def profile_obj(c: Ctx) -> dict:
    """A description of a collection of passages, as prompt tuning asks for."""
    names = [titled(x) for x, _ in c.mat.entities[:3]] or ["a subject"]
    found = Material(payload(c.main), "", ["person", "place", "organization", "event"])
    return {"domain": "records of " + ", ".join(names), "language": "English",
            "persona": f"You are an archivist of the records of {names[0]}. You know who is who in them.",
            "entity_types": list(dict.fromkeys(found.types)), "reader": f"A historian of {names[0]} reads the reports.",
            "rating": f"What concerns {names[-1]} matters most."}


def answer(c: Ctx) -> str:
    k = c.kind
    if k == "profile":
        return json.dumps(profile_obj(c), ensure_ascii=False)
    if c.schema is not None:
        return json.dumps(Filler(c).fill(c.schema), ensure_ascii=False)
    if k == "extract":
        return do_extract(c)
    if k == "glean":
        claims = "claim" in c.main.lower() and "claim description" in c.main.lower()
        return do_claims(c, True) if claims else do_extract(c, True)
    if k == "glean_check":
        yes = unit("glean", c.full) < c.cfg["glean_yes"]
        if "done" in c.last.lower():
            return "continue" if yes else "done"
        single = "single letter" in c.last.lower() or re.search(r"\bY\b", c.last) is not None
        return ("Y" if yes else "N") if single else ("YES" if yes else "NO")
    if k == "summarize":
        return do_summarize(c)
    if k == "claims":
        return do_claims(c)
    if k == "report":
        return json.dumps(report_obj(c), ensure_ascii=False)
    if k == "map":
        return json.dumps(map_obj(c), ensure_ascii=False)
    if k == "drift_primer":
        return json.dumps({"intermediate_answer": answer_md(c, "Relation to the query"), "score": int(100 * c.mat.overlap()), "follow_up_queries": questions(c, 5)}, ensure_ascii=False)
    if k == "drift_local":
        m = re.search(r"up to (\d+) follow-up", c.full)
        return json.dumps({"response": answer_md(c), "score": 40 + h64(c.last) % 60, "follow_up_queries": questions(c, min(int(m.group(1)) if m else 3, 3))}, ensure_ascii=False)
    if k == "rate":
        ov = Material(payload(c.main), c.query).overlap()
        return json.dumps({"reason": f"The information shares {ov:.0%} of the words of the question.", "rating": int(round(5 * ov))})
    if k == "keywords":
        return json.dumps(keywords_obj(c), ensure_ascii=False)
    if k == "questions":
        m = re.search(r"list of (\d+)|(\d+) (?:\w+ )?questions", c.full)
        return "\n".join("- " + q for q in questions(c, min(int(m.group(1) or m.group(2)) if m else 5, 50)))
    if k == "resolve":
        return do_resolve(c)
    if c.json_mode:
        sch = embedded_schema(c.full)
        if sch:
            return json.dumps(Filler(c).fill(sch), ensure_ascii=False)
        return json.dumps({"answer": c.mat.relevant(1)[0], "confidence": round(unit(c.full), 2)}, ensure_ascii=False)
    if k in ("local", "basic", "reduce", "hyde"):
        return answer_md(c, {"reduce": "Summary of the reports", "hyde": "Hypothetical answer"}.get(k, "Answer"))
    if _YESNO.search(c.last[-300:]) and "?" in c.last:
        return "YES" if unit(c.full) < 0.5 else "NO"
    return " ".join(c.mat.relevant(2))


# ---------------------------------------------------------------------------------------------------------------------
# 5. JSON schema -> a valid instance, filled from the text where the property names allow it
# ---------------------------------------------------------------------------------------------------------------------
def embedded_schema(text: str):
    """A JSON schema pasted into the prompt (instructor, LangChain ...), or None."""
    if '"properties"' not in text:
        return None
    dec = json.JSONDecoder()
    p = text.find("{")
    tries = 0
    while p >= 0 and tries < 40:
        try:
            o, _ = dec.raw_decode(text, p)
            if isinstance(o, dict) and "properties" in o:
                return o
        except ValueError:
            pass
        tries += 1
        p = text.find("{", p + 1)
    return None


_SRC = ("source", "subject", "head", "from", "source_entity", "src", "entity1", "entity_1", "source_name")
_TGT = ("target", "object", "tail", "to", "target_entity", "tgt", "dst", "entity2", "entity_2", "target_name")
_NAME = ("name", "entity_name", "title", "entity", "label")
_DESC = ("description", "desc", "explanation", "summary", "text", "content", "details")


class Filler:
    def __init__(self, c: Ctx):
        self.c = c
        self.root = {}
        self.depth = 0
        self._rep = None

    def fill(self, schema: dict):
        self.root = schema
        return self.node(schema, self.c.schema_name or "root", None, 0)

    def deref(self, s):
        n = 0
        while isinstance(s, dict) and "$ref" in s and n < 20:
            ref, cur = s["$ref"], self.root
            for part in ref.lstrip("#/").split("/"):
                if part:
                    cur = cur.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(cur, dict) else {}
            s = {**cur, **{k: v for k, v in s.items() if k != "$ref"}}
            n += 1
        return s

    def node(self, s, name: str, item, depth: int):
        if s is True or not isinstance(s, dict):
            return "value"
        s = self.deref(s)
        if "const" in s:
            return s["const"]
        if s.get("enum"):
            return self.choose(s["enum"], name, item)
        for comb in ("allOf",):
            if comb in s:
                merged: dict = {k: v for k, v in s.items() if k != comb}
                for part in s[comb]:
                    part = self.deref(part)
                    props = {**merged.get("properties", {}), **part.get("properties", {})}
                    req = list(dict.fromkeys(merged.get("required", []) + part.get("required", [])))
                    merged = {**merged, **part}
                    if props:
                        merged["properties"] = props
                    if req:
                        merged["required"] = req
                s = merged
        for comb in ("anyOf", "oneOf"):
            if comb in s:
                opts = [self.deref(o) for o in s[comb]]
                opts = [o for o in opts if o.get("type") != "null"] or opts
                return self.node({**{k: v for k, v in s.items() if k not in (comb, "title", "default")}, **opts[0]}, name, item, depth)
        t = s.get("type")
        if isinstance(t, list):
            t = next((x for x in t if x != "null"), "null")
        if t is None:
            t = "object" if "properties" in s else "array" if "items" in s or "prefixItems" in s else "string"
        return getattr(self, "t_" + t, self.t_string)(s, name, item, depth)

    def choose(self, options, name, item):
        n = item.get("name") if isinstance(item, dict) else None
        low = name.lower()
        if n and "type" in low:
            return guess_type(n, [str(o) for o in options]) if all(isinstance(o, str) for o in options) else options[h64(n) % len(options)]
        if self.c.kind in ("resolve", "glean_check"):
            want = "yes" if (do_resolve(self.c) == "YES" if self.c.kind == "resolve" else unit("glean", self.c.full) < self.c.cfg["glean_yes"]) else "no"
            for o in options:
                if str(o).lower() in ((want, "true", "same", "continue") if want == "yes" else (want, "false", "different", "done")):
                    return o
        return options[h64(name, n or self.c.last[:200]) % len(options)]

    def t_object(self, s, name, item, depth):
        props = s.get("properties") or {}
        out = {}
        if depth > 12:
            return out
        for k, v in props.items():
            out[k] = self.node(v, k, item, depth + 1)
        for k in s.get("required", []):
            if k not in out:
                out[k] = "value"
        ap = s.get("additionalProperties")
        if not props and isinstance(ap, dict):
            for n, sent in self.c.mat.entities[:3]:
                out[titled(n)] = self.node(ap, name, {"name": n, "sent": sent}, depth + 1)
        return out

    def t_array(self, s, name, item, depth):
        lo, hi = s.get("minItems", 0), s.get("maxItems")
        if "prefixItems" in s:
            return [self.node(p, name, item, depth + 1) for p in s["prefixItems"]]
        it = self.deref(s.get("items") or {"type": "string"})
        things = self.items_for(it, name, depth)
        if hi is not None:
            things = things[:hi]
        while len(things) < lo:
            things.append({"i": len(things), "name": f"ITEM {len(things) + 1}", "sent": self.c.mat.sentences[len(things) % len(self.c.mat.sentences)]})
        out = [self.node(it, name, x, depth + 1) for x in things]
        if s.get("uniqueItems"):
            seen, uniq = set(), []
            for o in out:
                key = json.dumps(o, sort_keys=True)
                if key in seen and isinstance(o, str):
                    o = f"{o} {len(uniq) + 1}"
                    key = json.dumps(o)
                if key not in seen:
                    seen.add(key)
                    uniq.append(o)
            out = uniq
        return out

    def items_for(self, it: dict, name: str, depth: int) -> list[dict]:
        """What to put into an array: entities, relations, findings, points, questions, keywords or sentences."""
        c, low = self.c, name.lower()
        props = {p.lower() for p in (it.get("properties") or {})}
        if not props and "anyOf" in it:
            for o in it["anyOf"]:
                props |= {p.lower() for p in (self.deref(o).get("properties") or {})}
        glean = c.kind == "glean"
        if props & set(_SRC) and props & set(_TGT):
            if "other" in low:
                return []
            _, rels = pick(c, glean)
            return [{"source": a, "target": b, "name": f"{a} - {b}", "sent": s, "weight": w} for a, b, s, w in rels]
        if "finding" in low:
            return [{"name": f["summary"], "sent": f["explanation"], "finding": f} for f in self.report()["findings"]]
        if "point" in low:
            return [{"name": p["description"][:60], "sent": p["description"], "score": p["score"]} for p in map_obj(c)["points"]]
        if "claim" in low or "covariate" in low:
            return [{"source": a, "target": b, "name": a, "sent": s, "weight": w} for a, b, s, w in c.mat.relations[:4]]
        if props & set(_NAME) or "entit" in low or "node" in low:
            ents, _ = pick(c, glean)
            return [{"name": n, "sent": s} for n, s in ents]
        if not props and it.get("type", "string") == "string":
            if "question" in low or "quer" in low or "follow" in low:
                return [{"text": q} for q in questions(c, 5)]
            if "keyword" in low or "topic" in low or "tag" in low or "named" in low or "generic" in low:
                k = keywords_obj(c)
                return [{"text": x} for x in (k["high_level_keywords"] if ("high" in low or "generic" in low) else k["low_level_keywords"])]
            if "type" in low:
                return [{"text": x} for x in ("organization", "person", "geo", "event")]
            return [{"text": x} for x in c.mat.relevant(3)]
        if it.get("type") in ("integer", "number"):
            ids = [int(i) for i, _ in rows(payload(c.main))[:5]]
            return [{"num": i} for i in ids] or [{"num": i} for i in range(3)]
        return [{"name": n, "sent": s} for n, s in c.mat.entities[:4]] or [{"name": "ITEM", "sent": c.mat.sentences[0]}]

    def report(self):
        if self._rep is None:
            self._rep = report_obj(self.c)
        return self._rep

    def t_string(self, s, name, item, depth):
        v = self.string_value(name.lower(), item, s)
        f = s.get("format")
        if f in ("date-time", "date", "time", "uuid", "email", "uri", "ipv4", "hostname"):
            n = h64(v)
            v = {"date-time": f"{1900 + n % 120}-01-0{1 + n % 9}T00:00:00Z", "date": f"{1900 + n % 120}-01-0{1 + n % 9}", "time": "00:00:00Z",
                 "uuid": "%08x-0000-4000-8000-%012x" % (n & 0xFFFFFFFF, n >> 16), "email": f"u{n % 999}@example.org",
                 "uri": f"https://example.org/{n % 9999}", "ipv4": "127.0.0.1", "hostname": "example.org"}[f]
        if s.get("pattern"):
            v = from_pattern(s["pattern"], v)
        lo, hi = s.get("minLength", 0), s.get("maxLength")
        while len(v) < lo:
            v += " " + v if v else "x" * lo
        return v[:hi] if hi is not None else v

    def string_value(self, low: str, item, s) -> str:
        c = self.c
        if isinstance(item, dict):
            if "text" in item:
                return item["text"]
            if low in _SRC and "source" in item:
                return item["source"]
            if low in _TGT and "target" in item:
                return item["target"]
            if "finding" in item:
                return item["finding"]["summary"] if low in ("summary", "title", "name") else item["finding"]["explanation"]
            if "type" in low and "name" in item:
                return guess_type(item["name"], c.mat.types).upper()
            if low in _NAME or low.endswith("name"):
                return item.get("name", "ITEM")
            if "keyword" in low:
                return "association"
            if "status" in low:
                return ("TRUE", "SUSPECTED", "FALSE")[h64(item.get("name", "")) % 3]
            if "date" in low:
                return "NONE"
            return clean(f"{titled(item.get('name', ''))}: {item.get('sent', '')}") or "value"
        if c.kind == "report" or (low in ("title", "rating_explanation") and "communit" in c.full.lower()):
            r = self.report()
            if low in r and isinstance(r[low], str):
                return r[low]
        if "intermediate" in low or low in ("response", "answer", "content", "text"):
            if c.kind in ("drift_primer", "drift_local", "local", "basic", "reduce"):
                return answer_md(c, "Relation to the query")
        if low == "status" or "gleaning" in low:
            return "done"
        if "summary" in low or "description" in low:
            return do_summarize(c) if c.kind == "summarize" else " ".join(c.mat.relevant(2))
        if "title" in low or "name" in low:
            e = c.mat.entities
            return titled(e[0][0]) if e else "Untitled"
        return c.mat.relevant(1)[0]

    def number(self, s, name, item):
        low = name.lower()
        lo = s.get("minimum", s.get("exclusiveMinimum"))
        hi = s.get("maximum", s.get("exclusiveMaximum"))
        if isinstance(item, dict) and "num" in item:
            v = item["num"]
        elif isinstance(item, dict) and "score" in item and ("score" in low or "importance" in low):
            v = item["score"]
        elif isinstance(item, dict) and "weight" in item and ("weight" in low or "strength" in low):
            v = item["weight"]
        elif "rating" in low and self.c.kind == "report":
            v = self.report()["rating"]
        elif "rating" in low and self.c.kind == "rate":
            v = 5 * self.c.mat.overlap()
        elif "confidence" in low or "prob" in low:
            v = round(unit(name, self.c.last[:500]), 2)
        elif "score" in low:
            v = round(100 * self.c.mat.overlap(), 1)
        else:
            v = h64(name, self.c.last[:500]) % 10
        if lo is not None and hi is not None and not lo <= v <= hi:
            v = lo + (hi - lo) * unit(name, self.c.last[:500])
        elif lo is not None and v < lo:
            v = lo
        elif hi is not None and v > hi:
            v = hi
        if "exclusiveMinimum" in s and v <= s["exclusiveMinimum"]:
            v = s["exclusiveMinimum"] + (1 if hi is None else (hi - s["exclusiveMinimum"]) / 2)
        if "exclusiveMaximum" in s and v >= s["exclusiveMaximum"]:
            v = s["exclusiveMaximum"] - (1 if lo is None else (s["exclusiveMaximum"] - lo) / 2)
        if s.get("multipleOf"):
            v = math.ceil(v / s["multipleOf"]) * s["multipleOf"]
        return v

    def t_number(self, s, name, item, depth):
        return float(self.number(s, name, item))

    def t_integer(self, s, name, item, depth):
        v = int(self.number(s, name, item))
        if "minimum" in s and v < s["minimum"]:
            v = math.ceil(s["minimum"])
        return v

    def t_boolean(self, s, name, item, depth):
        if self.c.kind == "resolve":
            return do_resolve(self.c) == "YES"
        if self.c.kind == "glean_check":
            return unit("glean", self.c.full) < self.c.cfg["glean_yes"]
        return unit(name, self.c.last[:500]) < 0.5

    def t_null(self, s, name, item, depth):
        return None


def from_pattern(p: str, v: str) -> str:
    """A string for the commonest regex patterns; falls back to the value itself."""
    try:
        if re.search(p, v):
            return v
    except re.error:
        return v
    out, i, body = [], 0, p.strip("^$")
    try:
        while i < len(body):
            ch = body[i]
            if ch == "[":
                j = body.index("]", i + 1)
                cls = body[i + 1: j]
                cand = next((x for x in "aA0_-. " if re.fullmatch("[" + cls + "]", x)), cls[0])
                i = j + 1
            elif ch == "\\":
                cand = {"d": "0", "w": "a", "s": " "}.get(body[i + 1], body[i + 1])
                i += 2
            elif ch == "(":
                j = body.index(")", i)
                cand = body[i + 1: j].removeprefix("?:").split("|")[0]
                i = j + 1
            else:
                cand = "a" if ch == "." else ch
                i += 1
            n = 1
            if i < len(body) and body[i] in "*?+{":
                if body[i] == "{":
                    j = body.index("}", i)
                    n = int(body[i + 1: j].split(",")[0] or 0)
                    i = j + 1
                else:
                    n = 1 if body[i] == "+" else 0
                    i += 1
            out.append(cand * n)
        s = "".join(out)
        return s if re.search(p, s) else v
    except (ValueError, IndexError, re.error):
        return v


# ---------------------------------------------------------------------------------------------------------------------
# 6. Embeddings: hashed bag of words + character trigrams + word pairs. Similar texts -> similar vectors; unit length.
# ---------------------------------------------------------------------------------------------------------------------
_WORD = re.compile(r"\w+")
_wcache: dict[str, array] = {}


def _slots(word: str) -> array:
    """Slot numbers of one word: 6 for the word itself, 1 for each character trigram. Sign is the top bit of the slot."""
    a = _wcache.get(word)
    if a is None:
        n = 1 if word in STOP else 6
        vals = [zlib.crc32(f"{i}:{word}".encode("utf-8", "surrogatepass")) for i in range(n)]
        if n > 1 and len(word) > 3:
            vals += [zlib.crc32(word[i: i + 3].encode("utf-8", "surrogatepass")) for i in range(len(word) - 2)]
        a = array("L" if array("L").itemsize == 4 else "I", vals)
        if len(_wcache) < 500_000:
            _wcache[word] = a
    return a


def embed(text: str, dim: int):
    acc = array(_slots("a").typecode)
    words = _WORD.findall(text.lower())
    for w in words:
        acc.extend(_slots(w))
    if not acc:
        acc.extend(_slots("\x00empty"))
    if np is not None:
        v = np.frombuffer(acc, dtype=np.uint32)
        idx = (v & 0x7FFFFFFF) % dim
        vec = np.bincount(idx, weights=np.where(v >> 31, 1.0, -1.0), minlength=dim)
        vec = np.sign(vec) * np.sqrt(np.abs(vec))      # damp frequent words
        n = float(np.sqrt((vec * vec).sum())) or 1.0
        return (vec / n).astype(np.float32)
    vec = [0.0] * dim
    for x in acc:
        vec[(x & 0x7FFFFFFF) % dim] += 1.0 if x >> 31 else -1.0
    vec = [math.copysign(math.sqrt(abs(x)), x) for x in vec]
    n = math.sqrt(sum(x * x for x in vec)) or 1.0
    return [x / n for x in vec]


# ---------------------------------------------------------------------------------------------------------------------
# 7. Shared state (one mmap for all workers): counters, peak concurrency, attempt counters, rate-limit buckets, config version
# ---------------------------------------------------------------------------------------------------------------------
K = len(KINDS)
FN = list(FAULTS)
# layout of one worker's row of int64: in_flight, connections, cpu_us, then 6 per kind, then faults
PER_KIND = ("requests", "prompt_tokens", "completion_tokens", "errors", "latency_us", "items")
ROW = 8 + K * len(PER_KIND) + len(FN)
GLOBAL = 32     # version, peak, first_us, last_us, repeats, limited, bucket_r(level us), bucket_t, bucket stamp ...
ATT = 1 << 22   # attempt counters, one byte each: a hash collision (rare) only shifts the n-th draw


class Shared:
    def __init__(self, workers: int, path: str):
        self.workers = workers
        size = (GLOBAL + ROW * workers) * 8 + ATT
        with open(path, "r+b") as f:
            f.truncate(size)
            self.mm = mmap.mmap(f.fileno(), size)
        self.q = memoryview(self.mm)[: (GLOBAL + ROW * workers) * 8].cast("q")
        self.att = memoryview(self.mm)[(GLOBAL + ROW * workers) * 8:]
        self.me = 0

    def row(self, w: int | None = None) -> int:
        return GLOBAL + ROW * (self.me if w is None else w)

    def add(self, kind: int, field: int, n: int):
        self.q[self.row() + 8 + kind * len(PER_KIND) + field] += n

    def fault(self, name: str):
        self.q[self.row() + 8 + K * len(PER_KIND) + FN.index(name)] += 1

    def in_flight(self) -> int:
        q = self.q
        return sum(q[GLOBAL + ROW * w] for w in range(self.workers))

    def attempt(self, h: int) -> int:
        i = h % ATT
        n = self.att[i]
        if n < 255:
            self.att[i] = n + 1
        if n:
            self.q[4] += 1
        return n + 1

    def reset(self):
        fl = [self.q[GLOBAL + ROW * w] for w in range(self.workers)]
        ver = self.q[0]
        for i in range(1, len(self.q)):
            self.q[i] = 0
        for w, n in enumerate(fl):
            self.q[GLOBAL + ROW * w] = n
        self.q[0] = ver
        self.att[:] = bytes(len(self.att))


class Sim:
    def __init__(self, cfg: dict, shared: Shared, cfg_path: str):
        self.cfg, self.sh, self.cfg_path = cfg, shared, cfg_path
        self.version = shared.q[0]
        self.cache: OrderedDict[int, tuple] = OrderedDict()
        self.poison = re.compile(cfg["poison"]) if cfg["poison"] else None
        self.logf = None
        self.waiters = 0
        self.cpu_last = time.process_time()

    # -- configuration ---------------------------------------------------------------------------------------------
    def refresh(self):
        if self.sh.q[0] != self.version:
            self.version = self.sh.q[0]
            with open(self.cfg_path) as f:
                self.cfg = json.load(f)
            self.poison = re.compile(self.cfg["poison"]) if self.cfg["poison"] else None
            self.cache.clear()
            if self.logf and self.logf.name != self.cfg["log"]:
                self.logf.close()
                self.logf = None

    def set_config(self, changes: dict):
        bad = [k for k in changes if k not in DEFAULTS]
        bad += [f for f in (changes.get("faults") or {}) if f not in FAULTS]
        if bad:
            raise ValueError(f"unknown option or fault: {', '.join(bad)}")
        cfg = {**self.cfg, **changes}
        tmp = self.cfg_path + ".tmp"
        with open(tmp, "w") as f:
            json.dump(cfg, f)
        os.replace(tmp, self.cfg_path)
        self.sh.q[0] += 1
        self.refresh()

    # -- limits ----------------------------------------------------------------------------------------------------
    def limited(self, ntok: int) -> float:
        """0 = go on; otherwise the seconds to wait. Token buckets in shared memory (races only cost a little accuracy)."""
        q, cfg, now = self.sh.q, self.cfg, int(time.time() * 1e6)
        waits = []
        todo = []
        for limit, level, stamp, cost in ((cfg["rpm"], 6, 7, 1), (cfg["tpm"], 8, 9, ntok)):
            if not limit:
                continue
            cap = max(limit / 60.0 * cfg["burst"], cost)
            have = cap if q[stamp] == 0 else min(cap, q[level] / 1e6 + (now - q[stamp]) / 1e6 * limit / 60.0)
            if have < cost:
                waits.append((cost - have) * 60.0 / limit)
            todo.append((level, stamp, have - cost if have >= cost else have))
        for level, stamp, have in todo:
            if not waits or have >= 0:
                q[level] = int((have if not waits else min(have + 0, have)) * 1e6)
                q[stamp] = now
        return max(waits, default=0.0)

    # -- faults ----------------------------------------------------------------------------------------------------
    def draw(self, h: int, kind: str, attempt: int, text, forced: str | None) -> str | None:
        if forced:
            return forced if forced in FAULTS else None
        cfg = self.cfg
        if self.poison and text is not None and self.poison.search(text):
            return cfg["poison_fault"]
        f = cfg["faults"]
        if not f or (cfg["fault_kinds"] and kind not in cfg["fault_kinds"]) or (cfg["fault_attempts"] and attempt > cfg["fault_attempts"]):
            return None
        u = unit(cfg["seed"], h, attempt)
        for name, p in f.items():
            if kind == "embedding" and name in CONTENT_FAULTS or kind != "embedding" and name.startswith("embed_"):
                continue
            if u < p:
                return name
            u -= p
        return None

    def delay(self, kind: str, nin: int, nout: int, h: int) -> float:
        c = self.cfg
        base = c["kind_latency"].get(kind)
        if base is None:
            base = c["embed_latency"] if kind == "embedding" and c["embed_latency"] is not None else c["latency"]
        d = base + c["per_input_token"] * nin + c["per_output_token"] * nout
        if c["jitter"]:
            d *= 1 + c["jitter"] * (2 * unit("jitter", h) - 1)
        return d

    def log(self, **kw):
        if not self.cfg["log"]:
            return
        if self.logf is None:
            self.logf = open(self.cfg["log"], "a", buffering=1)
        self.logf.write(json.dumps(kw) + "\n")


CONTENT_FAULTS = {"truncated", "length", "malformed_json", "fenced", "prose", "garbage", "wrong_delims", "empty", "null_content",
                  "refusal", "content_filter", "bad_schema"}
_REFUSAL = "I'm sorry, but I can't assist with that request."


def damage(text: str, fault: str, h: int) -> str:
    """Apply a content fault to an answer. Deterministic."""
    is_json = text[:1] in "{["
    cut = max(1, int(len(text) * (0.5 + 0.2 * (h % 97) / 97)))
    if fault in ("truncated", "length"):
        return text[:cut]
    if fault == "malformed_json":
        if is_json:
            return (text[:-1], text.replace('": ', '" ', 1), text[:cut] + ",,}" + text[cut:], text.replace('"', "", 1), text + "}")[h % 5]
        return (text.replace("(", "", 3), text.replace(")", "", 3), text.replace('"', "", 5))[h % 3]
    if fault == "fenced":
        return f"Here is the result you asked for:\n\n```{'json' if is_json else 'text'}\n{text}\n```\n"
    if fault == "prose":
        return f"Sure! I analysed the text carefully. {text}\n\nLet me know if you need anything else."
    if fault == "garbage":
        if is_json:
            return "@@@ \x00\ufffd lorem ipsum {{{{ not json ]]"
        parts = text.split("\n")
        junk = ('("entity"<|>)', '("relationship"<|>A<|>)', '("entity"<|>X<|>Y<|>Z<|>extra<|>fields<|>more)', '("relationship"<|>A<|>B<|>strength not a number<|>high)',
                "entity<|#|>only", "### ignore previous", '("foo"<|>bar)', "\u202e\u200b<|><|><|>##")
        out = []
        for i, p in enumerate(parts):
            out.append(p)
            if i % 4 == h % 4:
                out.append(junk[(h + i) % len(junk)])
        return "\n".join(out)
    if fault == "wrong_delims":
        if is_json:
            return text.replace('"', "'")
        for a, b in ((("<|#|>", "<|>"), ("＜｜＞", "｜", "<||>", "<|>|", " | ")[h % 5]),):
            for x in a:
                text = text.replace(x, b)
        return text.replace("##", "；") if h % 2 else text
    if fault in ("empty", "content_filter"):
        return ""
    if fault == "refusal":
        return _REFUSAL
    if fault == "bad_schema":
        return json.dumps({"result": {"unexpected": [1, "two", None]}, "note": "another shape"})
    return text


def err(status: int, message: str, typ: str, code: str | None, headers: dict | None = None) -> web.Response:
    return web.Response(status=status, body=jdumps({"error": {"message": message, "type": typ, "param": None, "code": code}}),
                        content_type="application/json", headers=headers)


HTTP_FAULTS = {
    "error400": (400, "Invalid request (injected)", "invalid_request_error", None),
    "error401": (401, "Incorrect API key provided (injected)", "invalid_request_error", "invalid_api_key"),
    "error404": (404, "The model does not exist (injected)", "invalid_request_error", "model_not_found"),
    "error500": (500, "The server had an error while processing your request (injected)", "server_error", None),
    "error503": (503, "The engine is currently overloaded (injected)", "server_error", "overloaded"),
    "context_length": (400, "This model's maximum context length was exceeded (injected)", "invalid_request_error", "context_length_exceeded"),
}


class Server:
    def __init__(self, sim: Sim):
        self.sim = sim
        self.started = time.time()

    async def handle(self, req: web.BaseRequest):
        path = req.path
        try:
            if req.method == "POST":
                if path.endswith("/chat/completions"):
                    return await self.llm(req, "chat")
                if path.endswith("/embeddings"):
                    return await self.llm(req, "embedding")
                if path.endswith("/completions"):
                    return await self.llm(req, "completion")
                if path == "/reset":
                    self.sim.sh.reset()
                    return web.Response(body=b'{"ok":true}', content_type="application/json")
                if path == "/config":
                    try:
                        self.sim.set_config(jloads(await req.read()))
                    except (ValueError, TypeError, AttributeError, re.error) as e:
                        return err(400, str(e), "invalid_request_error", None)
                    return web.Response(body=jdumps(self.sim.cfg), content_type="application/json")
            elif req.method == "GET":
                if path.endswith("/models"):
                    self.sim.refresh()
                    return web.Response(body=jdumps({"object": "list", "data": [
                        {"id": m, "object": "model", "created": 0, "owned_by": "llmsim"} for m in self.sim.cfg["models"]]}), content_type="application/json")
                if path == "/stats":
                    return web.Response(body=jdumps(self.stats()), content_type="application/json")
                if path == "/config":
                    self.sim.refresh()
                    return web.Response(body=jdumps(self.sim.cfg), content_type="application/json")
                if path in ("/", "/health"):
                    return web.Response(body=b'{"status":"ok"}', content_type="application/json")
            return err(404, f"no route {req.method} {path}", "invalid_request_error", None)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as e:   # a bug of ours must be visible as such, not look like an injected fault
            import traceback
            traceback.print_exc()
            return err(500, f"llmsim bug: {e!r}", "llmsim_internal", "llmsim_bug")

    # -----------------------------------------------------------------------------------------------------------------
    async def llm(self, req: web.BaseRequest, api: str):
        sim, sh = self.sim, self.sim.sh
        sim.refresh()
        cfg, q = sim.cfg, sh.q
        raw = await req.read()
        try:
            body = jloads(raw)
            if not isinstance(body, dict):
                raise ValueError("body is not an object")
        except ValueError as e:
            return err(400, f"could not parse the JSON body: {e}", "invalid_request_error", None)
        hd = req.headers
        if cfg["api_key"] and hd.get("Authorization", "") != "Bearer " + cfg["api_key"]:
            return err(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key")
        t0 = time.time()
        row = sh.row()
        q[row] += 1
        n = sh.in_flight()
        if n > q[1]:
            q[1] = n
        now_us = int(t0 * 1e6)
        if q[2] == 0:
            q[2] = now_us
        kind, nin, nout, status, fault, d, items, h, attempt = "chat", 0, 0, 200, None, 0.0, 1, 0, 1
        try:
            if cfg["max_concurrency"] and n > cfg["max_concurrency"]:
                if cfg["over_limit"] == "reject":
                    status = 429
                    q[5] += 1
                    return self.too_many(cfg["retry_after"] or 1.0)
                while sh.in_flight() - sim.waiters > cfg["max_concurrency"]:
                    sim.waiters += 1
                    try:
                        await asyncio.sleep(0.002)
                    finally:
                        sim.waiters -= 1
            forced = hd.get("x-llmsim-fault")
            if api == "embedding":
                kind = "embedding"
                inp = body.get("input")
                texts = [inp] if isinstance(inp, str) else inp if isinstance(inp, list) and inp and not isinstance(inp[0], int) else [inp]
                texts = [t if isinstance(t, str) else " ".join(map(str, t or [])) for t in texts]
                items = len(texts)
                nin = sum(map(tokens, texts))
                h = h64(raw)
            else:
                if api == "completion":
                    p = body.get("prompt") or ""
                    body["messages"] = [{"role": "user", "content": p if isinstance(p, str) else "\n".join(map(str, p))}]
                if not isinstance(body.get("messages"), list) or not body["messages"]:
                    status = 400
                    return err(400, "'messages' must be a non-empty list", "invalid_request_error", None)
                h = h64(jdumps([body.get("messages"), body.get("model"), body.get("response_format"), body.get("tools")]))
            attempt = sh.attempt(h)
            if api != "embedding":
                hit = sim.cache.get(h)
                if hit is None:
                    hit = self.compute(body, cfg, hd.get("x-llmsim-kind"), h)
                    if cfg["cache"]:
                        sim.cache[h] = hit
                        if len(sim.cache) > cfg["cache"]:
                            sim.cache.popitem(last=False)
                kind, content, tool, nin = hit
            if cfg["rpm"] or cfg["tpm"]:
                w = sim.limited(nin)
                if w:
                    status = 429
                    q[5] += 1
                    return self.too_many(cfg["retry_after"] or w)
            if cfg["context_window"] and nin > cfg["context_window"]:
                status = 400
                return err(400, f"This model's maximum context length is {cfg['context_window']} tokens. However, your messages resulted in {nin} tokens.",
                           "invalid_request_error", "context_length_exceeded")
            fault = sim.draw(h, kind, attempt, raw.decode("utf-8", "replace") if sim.poison else None, forced)
            if fault:
                sh.fault(fault)
            if fault == "timeout":
                await asyncio.sleep(cfg["timeout_seconds"])
                status = 499
                return self.drop(req)
            if fault == "drop":
                status = 499
                return self.drop(req)
            refusal, finish = None, "stop"
            if api == "embedding":
                payload_out = self.embeddings(body, texts, cfg, fault, nin)
            else:
                mt = body.get("max_completion_tokens") or body.get("max_tokens")
                if fault in CONTENT_FAULTS:
                    if tool is not None:
                        tool = (tool[0], damage(tool[1], fault, h))
                    else:
                        content = damage(content, fault, h)
                    if fault == "length":
                        finish = "length"
                    elif fault == "content_filter":
                        finish = "content_filter"
                    elif fault == "refusal" and body.get("response_format"):
                        refusal = _REFUSAL
                if isinstance(mt, int) and mt > 0 and tokens(content) > mt:
                    content, finish = content[: mt * 4], "length"
                nout = tokens(content) + (tokens(tool[1]) if tool else 0)
            d = float(hd["x-llmsim-latency"]) if "x-llmsim-latency" in hd else sim.delay(kind, nin, nout, h)
            if fault == "slow":
                d *= cfg["slow_factor"]
            stream = bool(body.get("stream")) and api != "embedding"
            if d > 0 and not (stream and fault not in HTTP_FAULTS):
                await asyncio.sleep(d)
            if fault in HTTP_FAULTS:
                status = HTTP_FAULTS[fault][0]
                return err(*HTTP_FAULTS[fault])
            if fault == "error429":
                status = 429
                return self.too_many(cfg["retry_after"] or 1.0)
            if fault == "error502":
                status = 502
                return web.Response(status=502, text="<html><body><h1>502 Bad Gateway</h1></body></html>", content_type="text/html")
            if fault == "bad_json_body":
                return web.Response(text='{"id": "chatcmpl-', content_type="application/json")
            if api == "embedding":
                return await self.send(req, payload_out, fault)
            rid = f"chatcmpl-{h:016x}"
            usage = {"prompt_tokens": nin, "completion_tokens": nout, "total_tokens": nin + nout,
                     "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                     "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}
            model = body.get("model") or "llmsim"
            if stream:
                return await self.stream(req, body, api, rid, model, content, tool, finish, usage, d, fault)
            if api == "completion":
                out = {"id": rid, "object": "text_completion", "created": int(t0), "model": model, "usage": usage,
                       "choices": [{"index": 0, "text": content, "finish_reason": finish, "logprobs": None}]}
            else:
                msg = {"role": "assistant", "content": None if fault == "null_content" or tool or refusal else content, "refusal": refusal}
                if tool:
                    msg["tool_calls"] = [{"id": f"call_{h:016x}", "type": "function", "function": {"name": tool[0], "arguments": tool[1]}}]
                    finish = "tool_calls" if finish == "stop" else finish
                nch = body.get("n") if isinstance(body.get("n"), int) and 1 <= body.get("n") <= 128 else 1
                out = {"id": rid, "object": "chat.completion", "created": int(t0), "model": model, "system_fingerprint": "llmsim", "service_tier": "default",
                       "choices": [{"index": i, "message": msg, "logprobs": None, "finish_reason": finish} for i in range(nch)], "usage": usage}
            return await self.send(req, jdumps(out), fault)
        except asyncio.CancelledError:
            status = 499     # the client went away
            raise
        finally:
            q[row] -= 1
            kn = KIND_NO[kind]
            sh.add(kn, 0, 1)
            sh.add(kn, 1, nin)
            sh.add(kn, 2, nout)
            if status != 200:
                sh.add(kn, 3, 1)
            sh.add(kn, 4, int(d * 1e6))
            sh.add(kn, 5, items)
            now = time.time()
            q[3] = int(now * 1e6)
            cpu = time.process_time()
            q[row + 2] += int((cpu - sim.cpu_last) * 1e6)
            sim.cpu_last = cpu
            if cfg["log"]:
                sim.log(t=round(t0, 4), dur=round(now - t0, 4), kind=kind, status=status, nin=nin, nout=nout, lat=round(d, 4), h=f"{h:016x}", attempt=attempt, fault=fault)

    def compute(self, body: dict, cfg: dict, forced_kind: str | None, h: int):
        """(kind, content, tool call or None, prompt tokens) of a chat request; the pure part, cached."""
        c = Ctx(body, cfg)
        nin = tokens(c.full) + sum(map(tokens, c.assistants)) + 4 * len(body["messages"])
        c.kind = forced_kind if forced_kind in KIND_NO else detect(c.full, c.last, len(c.assistants))
        tool = None
        tools, choice = body.get("tools"), body.get("tool_choice")
        if tools and choice != "none":
            fn = None
            if isinstance(choice, dict):
                want = (choice.get("function") or {}).get("name")
                fn = next((t["function"] for t in tools if t.get("function", {}).get("name") == want), None)
            elif choice == "required" or len(tools) == 1:
                fn = tools[0].get("function")
            if fn:
                c.schema, c.schema_name = fn.get("parameters") or {"type": "object"}, fn["name"]
                tool = (fn["name"], answer(c))
        if tool is None and c.schema is None and c.json_mode and c.kind not in ("map", "rate"):
            c.schema = embedded_schema(c.full)
        content = "" if tool else answer(c)
        if c.schema is not None and c.kind == "chat":
            c.kind = "schema"
        return c.kind, content, tool, nin

    def embeddings(self, body, texts, cfg, fault, nin) -> bytes:
        dim = body.get("dimensions") or cfg["dim"]
        if fault == "embed_dim":
            dim = max(1, dim // 2)
        vecs = [embed(t, dim) for t in texts]
        if fault == "embed_short" and vecs:
            vecs = vecs[:-1]
        data = []
        b64 = body.get("encoding_format") == "base64"
        for i, v in enumerate(vecs):
            if fault == "embed_nan" and i == 0:
                v = v.copy() if np is not None else list(v)
                v[0] = float("nan")
            if b64:
                raw = v.tobytes() if np is not None else struct.pack(f"<{len(v)}f", *v)
                data.append({"object": "embedding", "index": i, "embedding": base64.b64encode(raw).decode()})
            else:
                data.append({"object": "embedding", "index": i, "embedding": v})
        return jdumps({"object": "list", "data": data, "model": body.get("model") or "llmsim", "usage": {"prompt_tokens": nin, "total_tokens": nin}})

    def too_many(self, wait: float) -> web.Response:
        return err(429, f"Rate limit reached. Please try again in {wait:.3f}s.", "requests", "rate_limit_exceeded",
                   {"Retry-After": str(max(1, math.ceil(wait))), "retry-after-ms": str(int(wait * 1000)), "x-ratelimit-remaining-requests": "0"})

    def drop(self, req) -> web.Response:
        if req.transport is not None:
            req.transport.abort()
        return web.Response(status=499)

    async def send(self, req, body: bytes, fault):
        if fault == "drop_mid":
            r = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
            await r.prepare(req)
            await r.write(body[: len(body) // 2])
            return self.drop(req)
        return web.Response(body=body, content_type="application/json")

    async def stream(self, req, body, api, rid, model, content, tool, finish, usage, d, fault):
        r = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"})
        r.enable_chunked_encoding()
        cfg = self.sim.cfg
        per = cfg["per_output_token"]
        first = max(0.0, d - per * usage["completion_tokens"])
        if first:
            await asyncio.sleep(first)
        await r.prepare(req)
        base = {"id": rid, "object": "chat.completion.chunk" if api == "chat" else "text_completion", "created": int(time.time()), "model": model, "system_fingerprint": "llmsim"}

        def chunk(delta, fin=None):
            ch = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": fin} if api == "chat" else {"index": 0, "text": delta.get("content") or "", "finish_reason": fin}
            return b"data: " + jdumps({**base, "choices": [ch]}) + b"\n\n"

        await r.write(chunk({"role": "assistant", "content": ""}))
        step = 16 if per else 64                 # characters per event: 4 tokens when paced, else 16
        text = content if not tool else tool[1]
        if tool:
            await r.write(chunk({"tool_calls": [{"index": 0, "id": f"call_{rid[9:]}", "type": "function", "function": {"name": tool[0], "arguments": ""}}]}))
        buf = []
        pieces = [text[i: i + step] for i in range(0, len(text), step)]
        for i, p in enumerate(pieces):
            if fault == "drop_mid" and i >= len(pieces) // 2:
                if buf:
                    await r.write(b"".join(buf))
                return self.drop(req)
            ev = chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]} if tool else {"content": p})
            if per:
                await asyncio.sleep(per * step / 4)
                await r.write(ev)
            else:
                buf.append(ev)
        if buf:
            await r.write(b"".join(buf))
        await r.write(chunk({}, "tool_calls" if tool and finish == "stop" else finish))
        if (body.get("stream_options") or {}).get("include_usage"):
            await r.write(b"data: " + jdumps({**base, "choices": [], "usage": usage}) + b"\n\n")
        await r.write(b"data: [DONE]\n\n")
        await r.write_eof()
        return r

    def stats(self) -> dict:
        sh, q = self.sim.sh, self.sim.sh.q
        kinds, tot = {}, dict.fromkeys(PER_KIND, 0)
        for k, name in enumerate(KINDS):
            vals = [sum(q[GLOBAL + ROW * w + 8 + k * len(PER_KIND) + f] for w in range(sh.workers)) for f in range(len(PER_KIND))]
            if vals[0]:
                kinds[name] = dict(zip(PER_KIND, vals))
                for f, v in zip(PER_KIND, vals):
                    tot[f] += v
        faults = {f: sum(q[GLOBAL + ROW * w + 8 + K * len(PER_KIND) + i] for w in range(sh.workers)) for i, f in enumerate(FN)}
        chat = {f: tot[f] - kinds.get("embedding", {}).get(f, 0) for f in PER_KIND}
        return {**tot, "chat_requests": chat["requests"], "chat_prompt_tokens": chat["prompt_tokens"], "chat_completion_tokens": chat["completion_tokens"],
                "embedding_requests": kinds.get("embedding", {}).get("requests", 0), "embedded_texts": kinds.get("embedding", {}).get("items", 0),
                "embedding_tokens": kinds.get("embedding", {}).get("prompt_tokens", 0),
                "simulated_latency_s": tot["latency_us"] / 1e6, "in_flight": sh.in_flight(), "peak_concurrency": q[1], "repeated_requests": q[4],
                "limited_429": q[5], "span_s": round((q[3] - q[2]) / 1e6, 3) if q[2] else 0.0,
                "server_cpu_s": round(sum(q[GLOBAL + ROW * w + 2] for w in range(sh.workers)) / 1e6, 3),
                "workers": sh.workers, "by_kind": kinds, "faults": {f: n for f, n in faults.items() if n}}


# ---------------------------------------------------------------------------------------------------------------------
# 8. Start-up
# ---------------------------------------------------------------------------------------------------------------------
async def serve(sim: Sim, host: str, port: int, reuse: bool, ready=None):
    server = web.Server(Server(sim).handle, handler_cancellation=True, keepalive_timeout=120, access_log=None)
    runner = web.ServerRunner(server, handle_signals=False)
    await runner.setup()
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    site = web.SockSite(runner, sock, backlog=1024)
    await site.start()
    if ready:
        ready(sock.getsockname()[1])
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    await stop.wait()
    await asyncio.wait_for(runner.cleanup(), 5)


def run_worker(i: int, cfg: dict, shared: Shared, cfg_path: str, host: str, port: int, reuse: bool, announce: bool):
    shared.me = i
    sim = Sim(cfg, shared, cfg_path)

    def ready(p):
        if announce:
            print(f"llmsim listening on http://{host}:{p}/v1 ({shared.workers} worker{'s' if shared.workers > 1 else ''}, pid {os.getpid()})", flush=True)

    import gc
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    coro = serve(sim, host, port, reuse, ready)
    try:
        import uvloop
        if sys.version_info >= (3, 11):
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as r:
                r.run(coro)
        else:
            uvloop.install()
            asyncio.run(coro)
    except ImportError:
        asyncio.run(coro)


def parse_args(argv=None):
    ap = argparse.ArgumentParser(description="Deterministic OpenAI-compatible LLM simulator", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=8400)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--fault", action="append", default=[], metavar="NAME=RATE,...", help="faults: " + ", ".join(FAULTS))
    ap.add_argument("--config", help="JSON file with options (keys as in GET /config); the command line wins")
    for k, v in DEFAULTS.items():
        if k == "faults":
            continue
        opt = "--" + k.replace("_", "-")
        if isinstance(v, list):
            ap.add_argument(opt, type=lambda s: [x for x in s.split(",") if x], default=None, help=f"comma list (default {','.join(v) or 'none'})")
        elif isinstance(v, dict):
            ap.add_argument(opt, type=lambda s: {a: float(b) for a, b in (p.split("=") for p in s.split(","))}, default=None, metavar="KIND=SECONDS,...")
        elif v is None:
            ap.add_argument(opt, type=float, default=None)
        else:
            ap.add_argument(opt, type=type(v), default=None, help=f"default {v!r}")
    a = ap.parse_args(argv)
    cfg = dict(DEFAULTS)
    if a.config:
        with open(a.config) as f:
            cfg.update(json.load(f))
    for k in DEFAULTS:
        if getattr(a, k, None) is not None:
            cfg[k] = getattr(a, k)
    faults = dict(cfg["faults"])
    for spec in a.fault:
        for p in spec.split(","):
            n, _, r = p.partition("=")
            if n not in FAULTS:
                ap.error(f"unknown fault {n!r}; one of {', '.join(FAULTS)}")
            faults[n] = float(r or 1)
    cfg["faults"] = faults
    return a, cfg


def main(argv=None):
    a, cfg = parse_args(argv)
    d = tempfile.mkdtemp(prefix="llmsim-")
    state, cfg_path = os.path.join(d, "state"), os.path.join(d, "config.json")
    open(state, "wb").close()
    with open(cfg_path, "w") as f:
        json.dump(cfg, f)
    shared = Shared(a.workers, state)
    kids = []
    try:
        if a.workers > 1 and a.port == 0:
            sys.exit("--port 0 needs --workers 1")
        for i in range(1, a.workers):
            pid = os.fork()
            if pid == 0:
                run_worker(i, cfg, shared, cfg_path, a.host, a.port, True, False)
                os._exit(0)
            kids.append(pid)
        run_worker(0, cfg, shared, cfg_path, a.host, a.port, a.workers > 1, True)
    finally:
        for k in kids:
            try:
                os.kill(k, signal.SIGTERM)
                os.waitpid(k, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        for p in (state, cfg_path):
            try:
                os.unlink(p)
            except FileNotFoundError:
                pass
        try:
            os.rmdir(d)
        except OSError:
            pass


if __name__ == "__main__":
    main()
