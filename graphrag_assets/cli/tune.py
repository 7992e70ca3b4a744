"""graphrag-assets tune-prompts: prompts for one's own documents, priced first, shown as a difference, then written."""

from __future__ import annotations

import asyncio
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click

from graphrag_assets import interrupts
from graphrag_assets.cli.index import open_places, usage_json
from graphrag_assets.cli.output import fail, print_json
from graphrag_assets.input.folder import require_input
from graphrag_assets.llm.embedding.models import embedder
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.limiting.budget import Budget, BudgetReached
from graphrag_assets.llm.prices import ModelFacts, facts
from graphrag_assets.llm.tokens import Tokenizer, tokenizer
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.prompt_files import prompt_file, prompt_overrides, read_prompt
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.tuning.profile import Given, read_types
from graphrag_assets.tuning.sampling import Passage, first_passages, random_passages, typical
from graphrag_assets.tuning.steps import STAGE, STAGES, Price, Tuned, TuneError, Wish, price, tune

Sample = Literal["random", "top", "auto"]

#: What the ledger of calls names in place of a run, before the time.
RUN = "tune-prompts"


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Args:
        sample: How passages are chosen.
        size: How many.
        candidates: How many of them are embedded for ``auto``.
        chunk_tokens: Most tokens of a passage.
        seed: Seed of the choice.
        domain: As given, None: found.
        language: As given, None: found.
        entity_types: As given, empty: found.
        discover: Find entity types.
        examples: Examples in the extraction prompt.
        max_prompt_tokens: Most tokens of the extraction prompt.
        stages: Stages to tune; empty: all.
        model: Entry of completion_models; None: that of extract_graph.
        output: Folder for the prompts; None: where the workspace has them.
        dry_run: Only tell the price.
        yes: Do not ask.
        usd: Most USD; None: as set.
        tokens: Most tokens; None: as set.
    """

    sample: Sample
    size: int
    candidates: int
    chunk_tokens: int
    seed: int
    domain: str | None
    language: str | None
    entity_types: tuple[str, ...]
    discover: bool
    examples: int
    max_prompt_tokens: int
    stages: tuple[str, ...]
    model: str | None
    output: Path | None
    dry_run: bool
    yes: bool
    usd: float | None
    tokens: int | None


def tune_command(workspace: Workspace, options: Options, *, as_json: bool) -> None:
    """Tell the price, ask, show what changes, write it.

    Args:
        workspace: Root and settings.
        options: What is asked for.
        as_json: Print one JSON object.
    """
    wish = _wish(workspace, options)
    source, _ = open_places(workspace)
    require_input(source)
    counter = tokenizer(workspace.settings.chunking.encoding_model)
    candidates = _candidates(workspace, source, counter, options)
    if not candidates:
        where = workspace.uri(workspace.settings.input_storage.base_dir)
        fail(f"there is no document to tune with in {where}; put some there", "input")
    known, told = _price(workspace, options, wish, candidates, counter)
    report: dict[str, Any] = {
        "model": _name(workspace, wish),
        "sample": _sample_json(candidates, options),
        "price": told,
    }
    if options.dry_run:
        _show(report, as_json, [*_priced(report), "Nothing was sent, nothing was written."])
        return
    _agree(report, options, as_json)
    tuned, usage = _run(workspace, options, wish, candidates, counter, known.context_window)
    report |= _outcome(workspace, options, tuned, usage, counter)
    changed = [file for file in report["files"] if file["changed"]]
    if not as_json:
        click.echo("\n".join([*_described(report), *(file["diff"] for file in changed)]))
    if not changed:
        _show(report, as_json, ["The prompts are as they were: there is nothing to write."])
        return
    if not options.yes and not click.confirm("Write these prompts?", err=True):
        fail("no prompt was written; the answers are kept, so that asking again costs nothing", "declined")
    _write(changed, tuned)
    _show(report, as_json, _written(changed, options))


# --- before anything is sent ---


def _wish(workspace: Workspace, options: Options) -> Wish:
    settings = workspace.settings
    if not settings.completion_models:
        fail(
            "tune-prompts asks a language model, and completion_models has no entry; add one to settings.yaml",
            "settings",
        )
    model_id = options.model or settings.extract_graph.completion_model_id
    if model_id not in settings.completion_models:
        fail(
            f"completion_models has no entry {model_id!r}; it has {', '.join(sorted(settings.completion_models))}",
            "settings",
        )
    types: tuple[str, ...] | None = None
    if options.entity_types:
        try:
            types = read_types(",".join(options.entity_types))
        except ValueError as error:
            fail(f"--entity-types: {error}", "usage")
    elif not options.discover:
        types = tuple(settings.extract_graph.entity_types)
    given = Given(options.domain, options.language, types)
    return Wish(options.stages or STAGES, given, options.examples, options.max_prompt_tokens, model_id)


def _name(workspace: Workspace, wish: Wish) -> str:
    entry = workspace.settings.completion_models[wish.model_id]
    return f"{entry.model_provider}/{entry.model}"


def _candidates(workspace: Workspace, source: FileSystem, counter: Tokenizer, options: Options) -> list[Passage]:
    settings = workspace.settings.input
    if options.sample == "top":
        return first_passages(source, settings, counter, options.chunk_tokens, options.size)
    number = max(options.size, options.candidates) if options.sample == "auto" else options.size
    return random_passages(source, settings, counter, options.chunk_tokens, number, options.seed)


def _embeds(options: Options, candidates: list[Passage]) -> bool:
    """Whether the sample is chosen by vectors."""
    return options.sample == "auto" and len(candidates) > options.size


def _price(
    workspace: Workspace, options: Options, wish: Wish, candidates: list[Passage], counter: Tokenizer
) -> tuple[ModelFacts, dict[str, Any]]:
    settings = workspace.settings
    known = facts(settings.completion_model(wish.model_id))
    vectors = settings.embedding_model(settings.embed_text.embedding_model_id) if _embeds(options, candidates) else None
    texts = sorted(candidates, key=lambda p: -p.tokens)[: options.size] if _embeds(options, candidates) else candidates
    found: Price = price(
        workspace,
        wish,
        texts,
        candidates if _embeds(options, candidates) else [],
        known,
        facts(vectors) if vectors is not None else None,
        counter.count,
    )
    return known, {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(found).items()}


def _sample_json(candidates: list[Passage], options: Options) -> dict[str, Any]:
    documents = len({passage.path for passage in candidates})
    return {
        "method": options.sample,
        "candidates": len(candidates),
        "passages": min(options.size, len(candidates)),
        "documents": documents,
        "chunk_tokens": options.chunk_tokens,
        "seed": options.seed,
    }


def _priced(report: dict[str, Any]) -> list[str]:
    sample, told = report["sample"], report["price"]
    usd = told["usd"]
    price = "the price is not known: set prices of the model" if usd is None else f"{usd[0]:.4f} to {usd[1]:.4f} USD"
    lines = [
        f"Sample: {sample['passages']} passages of at most {sample['chunk_tokens']} tokens ({sample['method']}, "
        f"{sample['candidates']} candidates from {sample['documents']} documents)",
        f"Model: {report['model']}",
        f"Estimate: {_range(told['calls'])} calls, {_range(told['prompt_tokens'])} + {_range(told['completion_tokens'])} "
        f"tokens, {price}; answers in the cache cost nothing",
    ]
    if told["embedding_tokens"]:
        lines.append(f"Embeddings to choose the sample: {told['embedding_tokens']} tokens, in the price")
    return lines


def _range(bounds: list[int]) -> str:
    return f"{bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _agree(report: dict[str, Any], options: Options, as_json: bool) -> None:
    """Let the user agree to the price; without a terminal only ``--yes`` does."""
    lines = _priced(report)
    if options.yes:
        click.echo("\n".join(lines), err=True)
        return
    if as_json or not sys.stdin.isatty():
        fail("\n".join([*lines, "Nothing was sent: agree with --yes, or look at the price with --dry-run"]), "confirm")
    click.echo("\n".join(lines), err=True)
    if not click.confirm("Ask the model now?", err=True):
        fail("nothing was sent, no prompt was changed", "declined")


# --- asking ---


def _run(
    workspace: Workspace,
    options: Options,
    wish: Wish,
    candidates: list[Passage],
    counter: Tokenizer,
    window: int | None,
) -> tuple[Tuned, dict[str, StageUsage]]:
    limits = workspace.settings.budget
    budget = Budget(
        limits.usd_per_run if options.usd is None else options.usd,
        limits.tokens_per_run if options.tokens is None else options.tokens,
        whole=True,
    )
    run = f"{RUN} {datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    async def work() -> tuple[Tuned, dict[str, StageUsage]]:
        async with Gateway(workspace, budget, run) as gateway:
            texts = candidates
            if _embeds(options, candidates):
                vectors = await embedder(workspace, gateway).embed([p.text for p in candidates], "document", STAGE)
                texts = typical(candidates, vectors, options.size, options.seed)
            return await tune(workspace, gateway, wish, texts, counter.count, window), gateway.usage()

    try:
        with interrupts.cancelling():
            return asyncio.run(work())
    except BudgetReached as error:
        fail(
            f"{error}. No prompt was changed; the answers so far are kept",
            "budget",
            spent_usd=round(budget.spent_usd, 8),
        )
    except TuneError as error:
        fail(str(error), "model")


# --- what changes ---


def _outcome(
    workspace: Workspace, options: Options, tuned: Tuned, usage: dict[str, StageUsage], counter: Tokenizer
) -> dict[str, Any]:
    files = [_file(workspace, options, name, text, counter.count) for name, text in tuned.prompts.items()]
    notes = list(tuned.notes)
    if options.output is not None:
        notes += [
            f"{file['path']} is read where the settings name it, or where it lies in {workspace.path('prompts')}"
            for file in files
            if Path(file["path"]).parent != workspace.path("prompts")
        ]
    return {
        "profile": asdict(tuned.profile) | {"entity_types": list(tuned.profile.entity_types)},
        "examples": [{"path": e.passage.path, "position": e.passage.position} for e in tuned.examples],
        "files": files,
        "llm": usage_json(usage),
        "notes": notes,
    }


def _file(workspace: Workspace, options: Options, name: str, text: str, count: Callable[[str], int]) -> dict[str, Any]:
    """One prompt: where it goes, what it is now, what changes."""
    override = prompt_overrides(workspace.settings).get(name)
    in_use = prompt_file(workspace, name, override)
    now = read_prompt(workspace, name, override)
    target = in_use or workspace.path(f"prompts/{name}.txt")
    if options.output is not None:
        target = options.output.absolute() / f"{name}.txt"
        now = target.read_text(encoding="utf-8", errors="replace") if target.is_file() else now
    before = str(in_use or f"packaged prompt {name}") if options.output is None else str(target)
    lines = difflib.unified_diff(
        now.splitlines(keepends=True), text.splitlines(keepends=True), before, f"{target} (tuned)"
    )
    return {
        "prompt": name,
        "path": str(target),
        "tokens_before": count(now),
        "tokens": count(text),
        "changed": now != text or not target.is_file(),
        "diff": "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines),
        "backup": None,
    }


def _described(report: dict[str, Any]) -> list[str]:
    profile, llm = report["profile"], report["llm"]
    return [
        f"Domain: {profile['domain']}",
        f"Language: {profile['language']}",
        f"Entity types: {', '.join(profile['entity_types'])}",
        f"Examples: {', '.join(dict.fromkeys(e['path'] for e in report['examples'])) or 'none'}",
        f"Model calls: {llm['calls']} ({llm['cached']} answered from the cache), {llm['prompt_tokens']} + "
        f"{llm['completion_tokens']} tokens, {llm['usd']:.4f} USD",
        *(f"{f['prompt']}: {f['tokens_before']} tokens before, {f['tokens']} now" for f in report["files"]),
        *(f"Note: {note}." for note in report["notes"]),
        "",
    ]


# --- writing ---


def _write(changed: list[dict[str, Any]], tuned: Tuned) -> None:
    """Write all files or none: new ones beside the old ones first, then copies of the old ones, then the exchange."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    new: list[tuple[Path, Path]] = []
    try:
        for file in changed:
            path = Path(file["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.new")
            beside.write_text(tuned.prompts[file["prompt"]], encoding="utf-8")
            new.append((beside, path))
        for file, (_, path) in zip(changed, new, strict=True):
            if path.is_file():
                backup = path.with_name(f"{path.name}.{stamp}.bak")
                backup.write_bytes(path.read_bytes())
                file["backup"] = str(backup)
        for beside, path in new:
            os.replace(beside, path)
    except OSError as error:
        for beside, _ in new:
            beside.unlink(missing_ok=True)
        fail(
            f"the prompts cannot be written: {error}; the answers are kept, so that asking again costs nothing", "files"
        )


def _written(changed: list[dict[str, Any]], options: Options) -> list[str]:
    lines = [
        f"Wrote {file['path']}" + (f"; the one before is {file['backup']}" if file["backup"] else "")
        for file in changed
    ]
    if options.output is None:
        lines.append("graphrag-assets plan shows what the new prompts make anew, and what that costs.")
    return lines


def _show(report: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    """Print the end: the report as JSON, or the lines."""
    if as_json:
        print_json(report)
    else:
        click.echo("\n".join(lines))
