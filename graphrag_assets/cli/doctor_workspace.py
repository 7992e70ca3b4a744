"""What doctor looks at in a workspace: settings, input, storage, cache, prompts, language."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from graphrag_assets.cli.doctor_installation import missing_packages
from graphrag_assets.cli.finding import Finding, fail, ok, warn
from graphrag_assets.prompt_files import (
    PromptError,
    load_prompt,
    missing_variables,
    packaged_prompts,
    prompt_overrides,
)
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.filesystem import (
    INPUT_BASE,
    FileInfo,
    FileSystem,
    LocalFileSystem,
    StorageError,
    open_filesystem,
)

#: Files that are read to see whether reading works and which languages there are, and the largest of them.
_SAMPLE_FILES, _SAMPLE_BYTES = 20, 2_000_000


def notices(workspace: Workspace) -> Iterator[Finding]:
    """The settings file, and each of its keys that does not work as written."""
    where = workspace.file.name if workspace.file else "no settings file: the embedded defaults run"
    asked = [notice for notice in workspace.notices if not notice.harmless]
    harmless = [f"{notice.key} ({notice.what})" for notice in workspace.notices if notice.harmless]
    detail = where + (f"; with the meaning it has in Microsoft GraphRAG: {', '.join(harmless)}" if harmless else "")
    yield ok("settings", detail)
    for notice in asked:
        yield warn(f"settings {notice.key}", notice.what, notice.why)


# --- input -----------------------------------------------------------------------------------------------------------


def inputs(workspace: Workspace) -> Iterator[Finding]:
    """Files of the input by type, those that no reader takes, and a sample that is read."""
    from graphrag_assets.input.readers import format_of

    listed = _list(workspace)
    files = [info for info in listed if info.problem is None]
    where = workspace.uri(workspace.settings.input_storage.base_dir)
    for info in listed:
        if info.problem:
            mend = "it becomes a row of rejected_inputs"
            yield warn("input", f"{info.path}: {info.problem.reason}: {info.problem.detail}", mend)
    if not files:
        yield warn("input", f"no files in {where}", "put documents there, or set input_storage.base_dir")
        return
    formats = Counter(format_of(info.path, workspace.settings.input) or "" for info in files)
    unsupported = [info.path for info in files if not format_of(info.path, workspace.settings.input)]
    by_type = ", ".join(f"{number} {name}" for name, number in sorted(formats.items()) if name)
    total = sum(info.size for info in files)
    yield ok("input", f"{len(files)} files, {total / 1e6:.1f} MB in {where}: {by_type or 'none of a supported type'}")
    if unsupported:
        shown = ", ".join(unsupported[:5]) + (f" and {len(unsupported) - 5} more" if len(unsupported) > 5 else "")
        mend = "convert them, or leave them out with input.file_pattern; they become rows of rejected_inputs"
        yield warn("input", f"{len(unsupported)} files of unsupported types: {shown}", mend)
    if (formats["pdf"] or formats["docx"]) and missing_packages("documents"):
        count = formats["pdf"] + formats["docx"]
        yield fail("input", f"{count} PDF or Word files cannot be read", "pip install 'graphrag-assets[documents]'")
    yield from _sample_findings(workspace, files)


def _sample_findings(workspace: Workspace, files: list[FileInfo]) -> Iterator[Finding]:
    from graphrag_assets.input.folder import read_input

    filesystem = _input(workspace)
    sample = _sample(files)
    contents = [read_input(filesystem, info, workspace.settings.input) for info in sample]
    documents = sum(len(found.documents) for found in contents)
    rejected = [rejection for found in contents for rejection in found.rejections if not rejection.is_warning]
    if sample:
        yield ok("input sample", f"{documents} documents in {len(sample)} files that were read")
    for rejection in rejected[:5]:
        place = f"{rejection.file}, {rejection.location}" if rejection.location else rejection.file
        yield warn("input sample", f"{place}: {rejection.reason}", rejection.detail)
    if len(rejected) > 5:
        yield warn("input sample", f"{len(rejected) - 5} more rejections", "see rejected_inputs after a run")


def _sample(files: list[FileInfo]) -> list[FileInfo]:
    """Up to some files, spread evenly over the input."""
    small = [info for info in files if info.size <= _SAMPLE_BYTES]
    step = max(1, len(small) // _SAMPLE_FILES)
    return small[::step][:_SAMPLE_FILES]


def _input(workspace: Workspace) -> FileSystem:
    place = workspace.settings.input_storage
    return open_filesystem(workspace.uri(place.base_dir), place.endpoint_url, place.region, INPUT_BASE)


def _list(workspace: Workspace) -> list[FileInfo]:
    from graphrag_assets.input.folder import list_inputs

    return list_inputs(_input(workspace), workspace.settings.input)


def language(workspace: Workspace) -> Iterator[Finding]:
    """The languages of a sample of the input against the models that read it."""
    from graphrag_assets.input.folder import read_input
    from graphrag_assets.input.language import detect_language
    from graphrag_assets.llm.embedding.embedded import choose_embedding_model

    settings, filesystem = workspace.settings, _input(workspace)
    languages: Counter[str] = Counter()
    for info in _sample([info for info in _list(workspace) if info.problem is None]):
        for document in read_input(filesystem, info, settings.input).documents[:20]:
            languages[settings.language or detect_language(document.text)] += 1
    if not languages:
        yield ok("language", "no documents to look at")
        return
    found = ", ".join(f"{code or 'unsure'} {number}" for code, number in languages.most_common())
    yield ok("language", f"documents of a sample by language: {found}")
    other = sum(number for code, number in languages.items() if code not in ("", "en"))
    if not settings.embedding_models:
        choice = choose_embedding_model(languages)
        chosen = settings.embedded_models.embedding or "bge-small-en-v1.5"
        if choice.message:
            yield warn("language", choice.message, "see docs/settings.md, embedded_models and embedding_models")
        elif choice.model != chosen:
            mend = f"set embedded_models.embedding: {choice.model}"
            yield warn("language", f"the embedded model {chosen} does not suit this input", mend)
    pipeline = settings.extract_graph_nlp.text_analyzer.model_name
    if settings.effective_method == "fast" and pipeline.startswith("en_") and other * 10 >= languages.total():
        mend = "name a pipeline for the language in extract_graph_nlp.text_analyzer.model_name, or configure a model"
        yield warn("language", f"the fast method reads with the English pipeline {pipeline}", mend)


# --- storage and cache -----------------------------------------------------------------------------------------------


def storage(workspace: Workspace) -> Iterator[Finding]:
    """Whether the index can be written, and whether of two writers of one name only the first succeeds."""
    place = workspace.settings.storage
    base = workspace.uri(place.base)
    filesystem = open_filesystem(base, place.endpoint_url, place.region)
    existed = not isinstance(filesystem, LocalFileSystem) or filesystem.root.is_dir()
    path = f".doctor/{uuid.uuid4().hex}"
    try:
        filesystem.create(path, b"1")
        conditional = _refuses_second(filesystem, path)
        read = filesystem.read(path) == b"1"
    except (OSError, StorageError) as error:
        yield fail("storage", f"{base} cannot be written: {error}", "set storage.base to a place that can")
        return
    finally:
        _tidy(filesystem, path, existed)
    if not conditional:
        mend = "use a server that honours If-None-Match, else two runs at once may overwrite each other's snapshot"
        yield fail("storage", f"{base} lets a second writer replace a file that must be new", mend)
    elif not read:
        yield fail("storage", f"{base} returned other bytes than were written", "check the server or the disk")
    else:
        yield ok("storage", f"{base} can be written and read; conditional creation works")


def _refuses_second(filesystem: FileSystem, path: str) -> bool:
    try:
        filesystem.create(path, b"2")
    except FileExistsError:
        return True
    return False


def _tidy(filesystem: FileSystem, path: str, existed: bool) -> None:
    with suppress(Exception):
        filesystem.delete(path)
        if isinstance(filesystem, LocalFileSystem):
            (filesystem.root / path).parent.rmdir()
            if not existed:
                filesystem.root.rmdir()


def cache(workspace: Workspace) -> Iterator[Finding]:
    """Whether the cache of answers can be written."""
    settings = workspace.settings.cache
    if not settings.enabled:
        yield warn("cache", "off: every answer is paid for again", "set cache.enabled: true")
        return
    file = workspace.path(settings.path)
    if not file.exists():
        folder = next(parent for parent in file.parents if parent.exists())
        if _can_write(folder):
            yield ok("cache", f"{file} will be made at the first answer")
        else:
            yield fail("cache", f"{folder} cannot be written", "set cache.path to a place that can")
        return
    try:
        with closing(sqlite3.connect(file, timeout=5)) as connection:
            connection.execute("begin immediate")
            connection.rollback()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            yield ok("cache", f"{file}, {file.stat().st_size / 1e6:.1f} MB, in use by another process")
        else:
            yield fail("cache", f"{file}: {error}", "set cache.path to a local file that can be written")
    except sqlite3.DatabaseError as error:
        yield fail("cache", f"{file}: {error}", "delete the file, or set cache.path to another one")
    else:
        yield ok("cache", f"{file}, {file.stat().st_size / 1e6:.1f} MB")


def shared_cache(workspace: Workspace) -> Iterator[Finding]:
    """Whether the cache that hosts share can be listed, read and written; nothing where there is none."""
    from graphrag_assets.llm.caching.objects import SETTING
    from graphrag_assets.llm.caching.shared import shared_objects, shared_place
    from graphrag_assets.llm.errors import GatewayError

    objects, place = shared_objects(workspace), shared_place(workspace)
    if objects is None:
        return
    mend = "runs go on without it; answers are kept on this host and sent later"
    if place is None or workspace.settings.cache.redis_url is not None:
        try:
            number = len(objects.packs())
        except GatewayError as error:
            yield fail("shared cache", str(error), "install the package, or remove cache.redis_url")
        except Exception as error:
            yield warn("shared cache", objects.place.told(error, objects.setting), mend)
        else:
            yield ok("shared cache", f"{objects.place.address} answers; it holds {number} packs of vectors")
        return
    try:
        filesystem = open_filesystem(place.address, place.endpoint, place.region, SETTING)
        number = sum(1 for _ in filesystem.list("vectors"))
        path = f".doctor/{uuid.uuid4().hex}"
        filesystem.write(path, b"1")
        with suppress(StorageError):  # the right to delete is not needed
            filesystem.delete(path)
    except (ValueError, StorageError) as error:
        yield warn("shared cache", str(error), mend)
        return
    yield ok("shared cache", f"{place.address} can be listed, read and written; it holds {number} packs of vectors")


def limits(workspace: Workspace) -> Iterator[Finding]:
    """Whether what is sent to models can be counted where the settings say, for all who send to them."""
    from graphrag_assets.llm.errors import GatewayError
    from graphrag_assets.llm.limiting.stores import RedisLimits

    settings = workspace.settings
    if settings.limits.redis_url is not None:
        try:
            RedisLimits(settings.limits.redis_url.get_secret_value())
        except GatewayError as error:
            yield fail("limits", str(error), "start the server, mend the address, or remove limits.redis_url")
        else:
            yield ok("limits", "Redis answers: the hosts that use it keep the limits of models together")
        return
    file = workspace.path(settings.limits.path)
    if not settings.cache.enabled and "path" not in settings.limits.model_fields_set:
        return
    folder = next(parent for parent in file.parents if parent.exists())
    if os.access(file, os.W_OK) if file.exists() else folder.is_dir() and _can_write(folder):
        yield ok("limits", f"the processes of this host keep the limits of models together in {file}")
        return
    told = f"{file} cannot be written: each process counts its calls for itself"
    mend = "set limits.path to a file that can be written"
    budget = settings.budget
    if budget.usd_per_day is not None or budget.tokens_per_day is not None:
        yield fail("limits", f"{told}, and no budget of a day can be kept", mend)
    else:
        yield warn("limits", told, mend)


def _can_write(folder: Path) -> bool:
    probe = folder / f".doctor-{uuid.uuid4().hex}"
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:
        return False
    return True


# --- prompts ---------------------------------------------------------------------------------------------------------


def prompts(workspace: Workspace) -> Iterator[Finding]:
    """Each prompt in use: whether it can be used, and which variables it leaves out."""
    packaged, sound = packaged_prompts(), 0
    overrides = prompt_overrides(workspace.settings)
    for name in packaged:
        found = list(_prompt_findings(workspace, name, overrides.get(name)))
        sound += not found
        yield from found
    own = workspace.path("prompts")
    named = {workspace.path(file) for file in overrides.values() if file}
    unknown = sorted(p.stem for p in own.glob("*.txt") if p.stem not in packaged and p not in named)
    if unknown:
        mend = f"no stage reads them; name one in the settings, or rename it: {', '.join(packaged)}"
        yield warn("prompts", f"files in {own} that nothing reads: {', '.join(unknown)}", mend)
    yield ok("prompts", f"{sound} of {len(packaged)} prompts have their variables")


def _prompt_findings(workspace: Workspace, name: str, override: str | None) -> Iterator[Finding]:
    try:
        text = load_prompt(workspace, name, override)
    except PromptError as error:
        yield fail(f"prompt {name}", str(error), "edit the prompt file, or set the key to another one")
        return
    missing = missing_variables(name, text)
    if "entity_types" in missing:
        missing.remove("entity_types")
        yield ok(f"prompt {name}", "it names its entity types itself: extract_graph.entity_types has no effect on it")
    if missing:
        what = ", ".join(f"{{{variable}}}" for variable in missing)
        yield warn(f"prompt {name}", f"{what} is left out, so that its setting has no effect", "add it, or leave it so")
