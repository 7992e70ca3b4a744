"""An index that lives: documents and settings change at random, and after each change it is compared with a rebuild.

What must hold after every reconcile stands in :meth:`Living.check`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from graphrag_assets.assets.communities import write_extractively, write_with_llm
from graphrag_assets.assets.corpus import text_unit_order
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.graph import in_order
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.plan import nothing_to_do
from graphrag_assets.indexing import leiden
from graphrag_assets.indexing.communities import membership, modularity
from graphrag_assets.prompt_files import load_prompt
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import CONTRACTS
from tests.llmsim_server import LlmSim
from tests.pipeline.plain_runs import Reconciled, reconcile_plainly
from tests.pipeline.workspaces import (
    OF_COMMUNITIES,
    assert_equal_indexes,
    fresh_process,
    make_workspace,
    manifest,
    rows,
    simulated,
    table,
)

#: Tables of the build area that are made for each batch; which row is in which batch may differ.
BATCHED = (
    "documents",
    "text_units",
    "extracted_entities",
    "extracted_relationships",
    "extracted_claims",
    "extraction_status",
)

#: Stages whose calls depend on the communities, which stay while those of a rebuild are made afresh.
AFTER_COMMUNITIES = {"community_reports", "community_report_embeddings"}

PATHS = ("a.txt", "b.txt", "c.md", "letters/d.txt", "letters/Ä é.txt", "z/y/x.txt")

#: Sentences of which documents are made: many names in common, some of them spelled in several ways, some accounts
#: that contradict each other, one of another language, one without a name.
SENTENCES = (
    "Edda Lindrow wrote to Tobin Ashe in Skarne.",
    "Dr. Edda Lindrow met Marten Pryce at Cold Rigg in 2031.",
    "E. Lindrow and Tobin Ashe founded the Skarne Archive Society in 2031.",
    "Edda Lindrow and Tobin Ashe founded the Skarne Archive Society in 2034.",
    "The Skarne Archive Society elected Leonora Quayle as its president.",
    "Leonora Quayle lives in Skarne with Marten Pryce.",
    "Marten Pryce accused the Cold Rigg Company of fraud.",
    "The Cold Rigg Company paid Marten Pryce 300 crowns on 4 May 2032.",
    "The Cold Rigg Company paid Marten Pryce 450 crowns on 4 May 2032.",
    "Jonas Verrall and Rosamund Quill left Gallows Gill for Port Maske.",
    "Rosamund Quill sold the Blue Heron to Jonas Verrall.",
    "Port Maske lies on the River Dace, and the River Dace flows through Skarne.",
    "Hask Courant interviewed Jonas Verrall in Port Maske on 2 June 2033.",
    "Quayle L. and Lindrow Edda signed the Treaty of Gallows Gill.",
    "Frau Edda Lindrow schrieb einen langen Brief an Tobin Ashe und fuhr danach nach Hause zurück.",
    "and so it went on, hour after hour, with nothing to tell.",
)

#: What may be set, with the values it may have; the first is the one that a workspace begins with.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "max_documents": (2, 1, 100),
    "chunking": (
        {"size": 40, "overlap": 8},
        {"size": 90, "overlap": 0},
        {"type": "stable", "size": 50, "min_size": 15},
        {"type": "sentence", "size": 40, "overlap": 10},
        {"size": 60, "overlap": 0, "prepend_metadata": ["title"]},
    ),
    "extract_graph prompt": ("", "\nTake your time."),
    "community_report_graph prompt": ("", "\nBe brief."),
    "summarize_descriptions prompt": ("", "\nUse plain words."),
    "extraction_model": ("gpt-4o-mini", "gpt-4o"),
    "report_model": ("gpt-4o-mini", "gpt-4.1"),
    "embedding": (("text-embedding-3-small", 32), ("text-embedding-3-small", 48), ("text-embedding-3-large", 32)),
    "claims": (False, True),
    "entity_types": (["organization", "person", "geo", "event"], ["person", "ship"]),
    "max_gleanings": (0, 1),
    "format": ("tuple", "json"),
    "lexical": (True, False),
    "resolve_llm": (False, True),
    "overrides": ("", "merge:\n- [Tobin Ashe, Jonas Verrall]\n", "separate:\n- [Edda Lindrow, Dr. Edda Lindrow]\n"),
    "max_cluster_size": (4, 10),
    "max_input_length": (8000, 300),
    "method": ("standard", "fast"),
}

#: Options that decide how the index is laid out or how often it is looked at, and nothing about what is in it.
LAYOUT = {"max_documents"}


@dataclass(frozen=True)
class Write:
    """Write a document: a new one, another version of one, or a former one again."""

    path: str
    sentences: tuple[int, ...]


@dataclass(frozen=True)
class Delete:
    """Delete a document, if there is any: the one at this place among them."""

    which: int


@dataclass(frozen=True)
class Rename:
    """Rename a document, if there is any; one of the new name is replaced."""

    which: int
    path: str


@dataclass(frozen=True)
class Choose:
    """Change a setting."""

    option: str
    value: int


Change = Write | Delete | Rename | Choose


def text_of(sentences: Iterable[int]) -> str:
    """A document: paragraphs of two sentences."""
    told = [SENTENCES[i] for i in sentences]
    return "\n\n".join(" ".join(told[i : i + 2]) for i in range(0, len(told), 2))


def settings_of(llmsim: LlmSim, options: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of settings.yaml."""
    settings = simulated(llmsim)
    chat = settings["completion_models"]["default_completion_model"]
    name, dimension = options["embedding"]
    settings["completion_models"] |= {
        "extraction": chat | {"model": options["extraction_model"]},
        "reports": chat | {"model": options["report_model"]},
    }
    settings["embedding_models"]["default_embedding_model"] |= {"model": name, "call_args": {"dimensions": dimension}}
    return settings | {
        "method": options["method"],
        "batches": {"max_documents": options["max_documents"]},
        "chunking": options["chunking"],
        "extract_graph": {
            "completion_model_id": "extraction",
            "entity_types": options["entity_types"],
            "max_gleanings": options["max_gleanings"],
            "format": options["format"],
        },
        "extract_claims": {"enabled": options["claims"], "completion_model_id": "extraction"},
        "entity_resolution": {"lexical": options["lexical"], "llm": options["resolve_llm"], "overrides": "same.yaml"},
        "cluster_graph": {"max_cluster_size": options["max_cluster_size"]},
        "community_reports": {
            "completion_model_id": "reports",
            "max_input_length": options["max_input_length"],
        },
        "checks": {"max_empty_share": 1.0},
    }


@dataclass
class Living:
    """A workspace whose input and settings change.

    Args:
        folder: Where it and the workspaces that it is compared with are made.
        llmsim: The models.
    """

    folder: Path
    llmsim: LlmSim
    texts: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=lambda: {name: values[0] for name, values in OPTIONS.items()})
    seen: set[str] = field(default_factory=set)
    steps: int = 0

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.folder / "living"

    def apply(self, changes: Sequence[Change]) -> Reconciled:
        """Make some changes, reconcile and check."""
        before = self.state()
        for change in changes:
            self._change(change)
        self._write(self.root)
        for path in [p for p in (self.root / "input").rglob("*") if p.is_file()]:
            if path.relative_to(self.root / "input").as_posix() not in self.texts:
                path.unlink()
        done = reconcile_plainly(self.root)
        self.steps += 1
        self.check(done, before)
        return done

    def _change(self, change: Change) -> None:
        known = sorted(self.texts)
        if isinstance(change, Write):
            self.texts[change.path] = text_of(change.sentences)
        elif isinstance(change, Choose):
            self.options[change.option] = OPTIONS[change.option][change.value % len(OPTIONS[change.option])]
        elif known:
            text = self.texts.pop(known[change.which % len(known)])
            if isinstance(change, Rename):
                self.texts[change.path] = text

    def _write(self, root: Path, **sections: Any) -> None:
        """Make a workspace what this one is to be: documents, settings, prompts."""
        (root / "input").mkdir(parents=True, exist_ok=True)
        known = {p: t for p, t in self.texts.items() if not _holds(root / "input" / p, t)}
        make_workspace(root, known, **settings_of(self.llmsim, self.options), **sections)
        (root / "same.yaml").write_text(self.options["overrides"], encoding="utf-8")
        (root / "prompts").mkdir(exist_ok=True)
        for option, more in self.options.items():
            if option.endswith(" prompt"):
                file = root / "prompts" / f"{option.removesuffix(' prompt')}.txt"
                file.unlink(missing_ok=True)
                if more:
                    file.write_text(load_prompt(load_workspace(root), file.stem) + more, encoding="utf-8")

    def state(self, *, named: bool = True) -> str:
        """All that the index follows from, but for its layout and, where they are not named, the names of documents."""
        texts: Any = self.texts if named else sorted(self.texts.values())
        settings = {name: value for name, value in self.options.items() if name not in LAYOUT}
        return json.dumps([texts, settings], sort_keys=True)

    # --- what must hold ------------------------------------------------------------------------------------------------

    def check(self, done: Reconciled, before: str) -> None:
        """All that must hold after a reconcile."""
        with fresh_process():
            workspace, index = load_workspace(self.root), Index(root=str(self.root))
            assert nothing_to_do(workspace, index.input, index.storage)
        self.check_costs(done, before)
        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        self._write(fresh, cache={"path": str(self.root / ".cache" / "llm.sqlite")})
        rebuilt = reconcile_plainly(fresh)
        assert rebuilt.calls.keys() - rebuilt.failed <= AFTER_COMMUNITIES, (
            f"the answers of a rebuild are all there: {rebuilt.calls}"
        )
        assert_equal_indexes(fresh, self.root, but=OF_COMMUNITIES)
        for name in BATCHED:
            assert batched_rows(self.root, name) == batched_rows(fresh, name), name
        assert sorted(row["path"] for row in rows(self.root, "documents")) == sorted(
            path for path, text in self.texts.items() if text.strip()
        )
        check_references(self.root)
        check_communities(self.root, fresh, self.options["max_cluster_size"])
        check_reports(self.root)

    def check_costs(self, done: Reconciled, before: str) -> None:
        """What was there before, under whatever name, is not paid for again."""
        if self.state() == before:
            assert not done.calls.keys() - done.failed
        unnamed = self.state(named=False)
        prepended = "prepend_metadata" in self.options["chunking"]
        if unnamed in self.seen and not prepended:
            assert done.calls.keys() - done.failed <= AFTER_COMMUNITIES, done.calls
        self.seen.add(unnamed)


def _holds(file: Path, text: str) -> bool:
    """Whether a file is there as wanted: one that is written again would look like an edit."""
    return file.is_file() and file.read_text(encoding="utf-8") == text


def batched_rows(root: Path, name: str) -> list[str]:
    """Rows of a table of the build area, of all batches that hold documents, in an order that no batch decides."""
    with fresh_process():
        index = Index(root=str(root))
        found = index.build.ref(name, index.fingerprints().batches).table(CONTRACTS[name].column_names).to_pylist()
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def check_references(root: Path) -> None:
    """Every id in any list exists, counts agree with lists, and every vector stands for a row."""
    tables = {name: rows(root, name) for name in manifest(root).tables}
    known = {name: {row["id"] for row in found} for name, found in tables.items() if found and "id" in found[0]}
    titles = {row["title"] for row in tables["entities"]}
    lists = {
        "documents": {"text_unit_ids": "text_units"},
        "text_units": {
            "entity_ids": "entities",
            "relationship_ids": "relationships",
            "covariate_ids": "covariates",
        },
        "entities": {"text_unit_ids": "text_units"},
        "relationships": {"text_unit_ids": "text_units"},
        "communities": {"entity_ids": "entities", "relationship_ids": "relationships", "text_unit_ids": "text_units"},
    }
    for name, columns in lists.items():
        for row in tables[name]:
            for column, other in columns.items():
                assert set(row[column]) <= known.get(other, set()), (name, row["id"], column)
                assert len(set(row[column])) == len(row[column]), (name, row["id"], column)
    degrees = dict.fromkeys(titles, 0)
    for row in tables["relationships"]:
        for end in ("source", "target"):
            degrees[row[end]] += 1
    for row in tables["entities"]:
        assert row["degree"] == degrees[row["title"]]
        assert row["frequency"] == len(row["text_unit_ids"]) > 0
    for row in tables["relationships"]:
        assert row["combined_degree"] == degrees[row["source"]] + degrees[row["target"]]
    for claim in tables["covariates"]:
        assert claim["text_unit_id"] in known["text_units"]
    numbers = {row["community"] for row in tables["communities"]}
    assert [row["community"] for row in tables["community_reports"]].sort() == sorted(numbers).sort()
    assert len(tables["community_reports"]) == len(numbers)


def check_communities(root: Path, fresh: Path, max_size: int) -> None:
    """Cover, nesting, connectedness, bound, and quality beside those of a fresh clustering."""
    communities, relationships, entities = (rows(root, name) for name in ("communities", "relationships", "entities"))
    related = {row["id"] for row in entities if row["degree"]}
    by_number = {row["community"]: row for row in communities}
    ids = {row["title"]: row["id"] for row in entities}
    ends = {row["id"]: (ids[row["source"]], ids[row["target"]]) for row in relationships}
    top = [member for row in communities if row["level"] == 0 for member in row["entity_ids"]]
    assert sorted(top) == sorted(related), "each related entity is in one community of level 0"
    assert len({row["id"] for row in communities}) == len(communities)
    for row in communities:
        members = set(row["entity_ids"])
        inside = {name for name, pair in ends.items() if members.issuperset(pair)}
        assert set(row["relationship_ids"]) == inside
        assert row["size"] == len(members) >= 2
        assert _reached(members, [ends[name] for name in inside]) == members, "connected"
        children = [by_number[child] for child in row["children"]]
        below = [member for child in children for member in child["entity_ids"]]
        assert not children or sorted(below) == sorted(members), "children hold all members, each once"
        assert all(child["parent"] == row["community"] and child["level"] == row["level"] + 1 for child in children)
        if not children and len(members) > max_size:
            assert _indivisible(row, relationships, ids, max_size), row["title"]
    weights = table(root, "relationships")
    names = {row["id"]: row["title"] for row in entities}
    for level in (0, 99):
        kept, best = (
            modularity(weights, {names[e]: n for e, n in membership(table(where, "communities"), level).items()})
            for where in (root, fresh)
        )
        assert kept >= best - 0.01 * abs(best) - 1e-9, level


def _reached(members: set[str], pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Members that can be reached from one of them."""
    around: dict[str, set[str]] = {member: set() for member in members}
    for one, other in pairs:
        around[one].add(other)
        around[other].add(one)
    found, waiting = set(), [next(iter(members))]
    while waiting:
        member = waiting.pop()
        if member not in found:
            found.add(member)
            waiting += around[member]
    return found


def _indivisible(
    row: Mapping[str, Any], relationships: Sequence[Mapping[str, Any]], ids: Mapping[str, str], max_size: int
) -> bool:
    """Whether Leiden cannot divide a community either."""
    inside = [r for r in relationships if r["id"] in set(row["relationship_ids"])]
    members = set(row["entity_ids"])
    order = {ids[title]: i for i, title in enumerate(sorted(title for title in ids if ids[title] in members))}
    ends = [np.array([order[ids[r[end]]] for r in inside], dtype=np.int64) for end in ("source", "target")]
    weight = leiden.binding(np.array([r["weight"] for r in inside], dtype=np.float64))
    graph = leiden.Graph.from_edges(len(order), *ends, weight)
    return not leiden.divide(graph, max_size=max_size, seed=0xDEADBEEF, resolution=1.0).children


def check_reports(root: Path) -> None:
    """The reports are those that would be written now on these communities, from nothing."""
    with fresh_process():
        index = Index(root=str(root))
        prints: Fingerprints = index.fingerprints()
        documents, units = (index.build.ref(name, prints.batches) for name in ("documents", "text_units"))
        texts = in_order(units.table(["id", "text", "document_id"]), text_unit_order(documents, units))
        names = ("entities", "relationships", "covariates", "communities")
        sources = {name: index.build.read(name) for name in names}
        if index.workspace.settings.effective_method == "standard":
            written, figures, _ = asyncio.run(write_with_llm(texts, sources, index.workspace, {}))
            assert not figures.get("community_reports/llm_calls"), "their answers are in the cache"
        else:
            written, _ = write_extractively(texts, sources, {})
        published: pa.Table = index.build.read("community_reports")
    assert written.to_pylist() == published.to_pylist()
