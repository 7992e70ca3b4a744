"""Reads a settings file of Microsoft GraphRAG (version 2 or 3) as one of ours.

Sections and keys that mean the same are moved to where they stand here; the others are taken out and told, key by key
(:class:`~graphrag_assets.settings.Notice`). A file of our own passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_assets.settings import Notice
from graphrag_assets.settings_source import KeyPath, Unset, dotted
from graphrag_assets.settings_unused import SECTIONS_WITHOUT_COUNTERPART, unused_rule

_STAGES = ("extract_graph", "summarize_descriptions", "extract_claims", "community_reports")
_SEARCHES = ("local_search", "global_search", "drift_search", "basic_search")

#: Keys that mean the same under another name: as written -> here.
MOVES: dict[str, str] = {
    "encoding_model": "chunking.encoding_model",
    "parallelization.num_threads": "concurrent_requests",
    "input.storage.type": "input_storage.type",
    "input.storage.base_dir": "input_storage.base_dir",
    "input.base_dir": "input_storage.base_dir",
    "input.file_type": "input.type",
    "chunks.size": "chunking.size",
    "chunks.overlap": "chunking.overlap",
    "chunks.encoding_model": "chunking.encoding_model",
    "chunks.strategy": "chunking.type",
    "chunks.prepend_metadata": "chunking.prepend_metadata",
    "output.base_dir": "storage.base",
    "output_storage.base_dir": "storage.base",
    "storage.base_dir": "storage.base",
    **{f"{stage}.model_id": f"{stage}.completion_model_id" for stage in _STAGES},
    "embed_text.model_id": "embed_text.embedding_model_id",
    **{f"{search}.chat_model_id": f"{search}.completion_model_id" for search in _SEARCHES},
    "summarize_descriptions.max_input_length": "summarize_descriptions.max_input_tokens",
    "local_search.max_tokens": "local_search.max_context_tokens",
    "global_search.max_tokens": "global_search.max_context_tokens",
}

#: Sections of version 1, which is too far away to be translated, and where their content belongs.
_VERSION_1 = {
    "llm": "completion_models",
    "embeddings": "embedding_models and embed_text",
    "entity_extraction": "extract_graph",
    "claim_extraction": "extract_claims",
    "skip_workflows": "the selection of assets in Dagster",
}

_MODEL_MOVES = {
    "auth_type": ("auth_method",),
    "deployment_name": ("azure_deployment_name",),
    "request_timeout": ("timeout",),
    "max_retries": ("retry", "max_retries"),
    "max_retry_wait": ("retry", "max_delay"),
    "tokens_per_minute": ("rate_limit", "tokens_per_period"),
    "requests_per_minute": ("rate_limit", "requests_per_period"),
    "organization": ("call_args", "extra_headers", "OpenAI-Organization"),
    **{
        name: ("call_args", name)
        for name in (
            "max_tokens", "max_completion_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty",
            "reasoning_effort",
        )
    },
}  # fmt: skip

_MODEL_UNUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "async_mode": ("calls are always made with asyncio", ("asyncio", "threaded")),
    "encoding_model": ("tokens are counted as chunking.encoding_model says", ()),
    "retry_strategy": ("waits grow exponentially; retry.type may be immediate", ("exponential_backoff", "native")),
    "rate_limit_strategy": ("limits hold in a sliding window", ("static",)),
    "proxy": ("set HTTPS_PROXY in the environment", ()),
    "audience": (
        "a managed identity asks for the default audience of Azure",
        ("https://cognitiveservices.azure.com/.default",),
    ),
    "responses": ("there is no mock model; let api_base name a test server", ()),
    "n": ("one answer is used", (1,)),
}

#: Prompt keys and the file that stands for each when the key is not set.
_PROMPTS: dict[tuple[str, str], str] = {
    ("extract_graph", "prompt"): "extract_graph",
    ("summarize_descriptions", "prompt"): "summarize_descriptions",
    ("extract_claims", "prompt"): "extract_claims",
    ("community_reports", "graph_prompt"): "community_report_graph",
    ("local_search", "prompt"): "local_search_system_prompt",
    ("global_search", "map_prompt"): "global_search_map_system_prompt",
    ("global_search", "reduce_prompt"): "global_search_reduce_system_prompt",
    ("global_search", "knowledge_prompt"): "global_search_knowledge_system_prompt",
    ("drift_search", "prompt"): "drift_search_system_prompt",
    ("drift_search", "reduce_prompt"): "drift_reduce_prompt",
    ("basic_search", "prompt"): "basic_search_system_prompt",
}


@dataclass
class Translation:
    """A settings tree in our terms.

    Args:
        tree: Sections and keys as :class:`~graphrag_assets.settings.Settings` has them (and unknown ones).
        notices: What became of keys that do not work as written.
        problems: Path as written and message of each value that cannot be used.
        origins: Path here -> path as written, for keys that were moved.
    """

    tree: dict[str, Any]
    notices: list[Notice] = field(default_factory=list)
    problems: list[tuple[KeyPath, str]] = field(default_factory=list)
    origins: dict[KeyPath, KeyPath] = field(default_factory=dict)

    def written(self, path: KeyPath) -> KeyPath:
        """The path of a key as it was written."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return (*self.origins[path[:length]], *path[length:])
        return path


def translate(tree: dict[str, Any], root: Path) -> Translation:
    """Translate a settings tree.

    Args:
        tree: As written, variables substituted; not changed.
        root: Folder of the settings file, where prompt files are looked for.
    """
    translator = _Translator(Translation(deepcopy(tree)), root)
    translator.run()
    return translator.out


class _Translator:
    def __init__(self, out: Translation, root: Path) -> None:
        self.out = out
        self.root = root

    def run(self) -> None:
        """All steps; each only touches keys that the reference has and we have not."""
        self._version_1()
        self._models()
        self._input_type()
        self._output_type()
        self._cache()
        for old, new in MOVES.items():
            self._move(tuple(old.split(".")), tuple(new.split(".")))
        self._chunking()
        self._prompt_files()
        self._take_out_unused(self.out.tree, ())
        self._drop_empty()

    # --- the tree ---

    def _get(self, path: KeyPath) -> Any:
        node: Any = self.out.tree
        for key in path:
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        return node

    def _has(self, path: KeyPath) -> bool:
        parent = self._get(path[:-1])
        return isinstance(parent, dict) and path[-1] in parent

    def _pop(self, path: KeyPath) -> Any:
        return self._get(path[:-1]).pop(path[-1])

    def _set(self, path: KeyPath, value: Any) -> None:
        node = self.out.tree
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = value

    def _notice(self, path: KeyPath, what: str, why: str = "", harmless: bool = False) -> None:
        self.out.notices.append(Notice(dotted(path), what, why, harmless))

    def _move(self, old: KeyPath, new: KeyPath, told: KeyPath | None = None) -> None:
        """Move a value; where the new key is set too, it wins."""
        if not self._has(old):
            return
        value = self._pop(old)
        told = told or old
        if value is None:
            self._notice(told, f"read as {dotted(new)}, unset", harmless=True)
        elif self._get(new) is not None:
            self._notice(told, "not used", f"{dotted(new)} is set too, and means the same")
        else:
            self._set(new, value)
            self.out.origins[new] = told
            self._notice(told, f"read as {dotted(new)}", harmless=True)

    # --- special cases ---

    def _version_1(self) -> None:
        for section, instead in _VERSION_1.items():
            if section in self.out.tree:
                self._pop((section,))
                self.out.problems.append(
                    ((section,), f"a section of Microsoft GraphRAG version 1; its place is {instead}")
                )

    def _input_type(self) -> None:
        """Version 2.0 had the kind of storage in input.type; version 3 has a reader named markitdown."""
        if self._get(("input", "type")) in ("file", "blob", "memory", "cosmosdb"):
            self._move(("input", "type"), ("input_storage", "type"))
        for key in ("type", "file_type"):
            if self._get(("input", key)) == "markitdown":
                self._set(("input", key), "auto")
                self._notice(
                    ("input", key), "read as auto", "PDF, Word and HTML files have readers of their own", harmless=True
                )

    def _output_type(self) -> None:
        for section in ("output", "output_storage", "storage"):
            path = (section, "type")
            if not self._has(path):
                continue
            kind = self._pop(path)
            if kind in ("file", "s3", None):
                self._notice(path, "read from storage.base", "an address that begins with s3:// is S3", harmless=True)
            else:
                wanted = "the index lives in a folder or an S3 prefix; write storage.base"
                self.out.problems.append((path, f"{kind!r} is not supported: {wanted}"))

    def _cache(self) -> None:
        """The reference's cache is a folder of files; ours is one file in that folder."""
        kind_path = ("cache", "type")
        if self._has(kind_path):
            kind = self._pop(kind_path)
            if kind == "none":
                self._set(("cache", "enabled"), False)
                self._notice(kind_path, "read as cache.enabled", harmless=True)
            else:
                why = "answers are kept in a file, see cache.path, and with cache.shared in a bucket too; cache.enabled: false keeps none"
                self._notice(kind_path, "not used", why, harmless=kind in (None, "json", "file"))
        for path in (("cache", "storage", "base_dir"), ("cache", "base_dir")):
            if self._has(path):
                if isinstance(folder := self._get(path), str) and not isinstance(folder, Unset):
                    self._set(path, f"{folder.rstrip('/')}/llm.sqlite")
                self._move(path, ("cache", "path"))

    def _chunking(self) -> None:
        if self._get(("chunking", "type")) == "sentences":
            self._set(("chunking", "type"), "sentence")
        path = ("chunking", "prepend_metadata")
        if not isinstance(flag := self._get(path), bool):
            return
        self._pop(path)
        columns = self._get(("input", "metadata"))
        if flag and columns:
            self._set(path, columns)
        elif flag:
            self._notice(
                self.out.written(path),
                "not used",
                "name the metadata fields to prepend: chunking.prepend_metadata: [title]",
            )

    def _prompt_files(self) -> None:
        """A prompt at its usual place that does not exist means the packaged prompt, not a failed run.

        The reference's own settings name prompts/drift_search_reduce_prompt.txt, but it writes drift_reduce_prompt.txt.
        """
        for path, name in _PROMPTS.items():
            file = self._get(path)
            usual = {
                f"prompts/{name}.txt",
                f"prompts/{'drift_search_reduce_prompt' if name == 'drift_reduce_prompt' else name}.txt",
            }
            if not isinstance(file, str) or file.removeprefix("./") not in usual or (self.root / file).is_file():
                continue
            self._pop(path)
            own = (self.root / f"prompts/{name}.txt").is_file()
            why = f"the file {file} does not exist; " + (
                f"prompts/{name}.txt is used" if own else "the packaged prompt is used"
            )
            self._notice(path, "not used", why, harmless=own)

    # --- models of version 2 ---

    def _models(self) -> None:
        models = self.out.tree.get("models")
        if models is None:
            return
        if not isinstance(models, dict):
            self.out.problems.append((("models",), "expected model entries by id"))
            return
        slots: list[int] = []
        for model_id in list(models):
            if isinstance(models[model_id], dict):
                self._model(model_id, slots)
            else:
                self.out.problems.append(
                    (("models", model_id), "expected a model entry: a section with type, model, api_key")
                )
        self.out.tree.pop("models")
        if slots and not self._has(("concurrent_requests",)):
            self._set(("concurrent_requests",), max(slots))

    def _model(self, model_id: str, slots: list[int]) -> None:
        old: KeyPath = ("models", model_id)
        kind = self._pop((*old, "type")) if self._has((*old, "type")) else None
        section = _section_of(kind)
        if section is None:
            self.out.problems.append(((*old, "type"), f"expected chat or embedding, found {kind!r}"))
            return
        new: KeyPath = (section, model_id)
        if self._has(new):
            self._notice(old, "not used", f"{dotted(new)} is set too, and means the same")
            return
        self._notice(old, f"read as {dotted(new)}", harmless=True)
        self._set(new, {})
        self.out.origins[new] = old
        entry = self._get(old)
        if isinstance(kind, str) and kind.startswith("azure_"):
            entry["model_provider"] = entry.get("model_provider") or "azure"
        for key in list(entry):
            self._model_key((*old, key), (*new, key), slots)

    def _model_key(self, old: KeyPath, new: KeyPath, slots: list[int]) -> None:
        key, value = old[-1], self._get(old)
        if key in _MODEL_UNUSED:
            why, same = _MODEL_UNUSED[key]
            self._notice(old, "not used", why, harmless=value in (None, [], *same))
        elif key == "concurrent_requests":
            self._notice(old, "read as concurrent_requests", "the largest of all models holds for all", harmless=True)
            slots += [value] if isinstance(value, int) and not isinstance(value, bool) else []
        elif key == "model_supports_json":
            if value is False:
                self._set((*new[:-1], "structured_output"), False)
            self._notice(
                old, "read as structured_output", "unset asks for JSON by schema where the model can", harmless=True
            )
        elif key in ("tokens_per_minute", "requests_per_minute") and value == "auto":
            self._notice(
                old, "not used", "without limits the gateway follows the provider's answers; write a number for a limit"
            )
        elif key == "max_retries" and isinstance(value, int) and value < 0:
            self._notice(old, "not used", "the number of repeats must be bounded; see retry.max_retries")
        elif key in _MODEL_MOVES:
            self._move(old, (*new[:-1], *_MODEL_MOVES[key]))
        elif value is not None:
            self._set(new, value)

    # --- what is left ---

    def _take_out_unused(self, node: dict[str, Any], path: KeyPath) -> None:
        for key in list(node):
            here, value = (*path, key), node[key]
            rule = unused_rule(dotted(here))
            if rule and (rule.whole or not isinstance(value, dict) or not value):
                del node[key]
                self._notice(here, "not used", rule.why, rule.harmless(value))
            elif isinstance(value, dict):
                self._take_out_unused(value, here)

    def _drop_empty(self) -> None:
        for path in _empty_sections(self.out.tree):
            if (
                path[0] in SECTIONS_WITHOUT_COUNTERPART
                or path in (("input", "storage"), ("cache", "storage"))
                or path[-1] == "metrics"
            ):
                self._pop(path)
        for section in SECTIONS_WITHOUT_COUNTERPART:
            if self.out.tree.get(section, section) in (None, {}, []):
                del self.out.tree[section]


def _section_of(kind: Any) -> str | None:
    """Section for a model type of version 2, such as chat or azure_openai_embedding; None for other types."""
    if not isinstance(kind, str) or kind.startswith("mock"):
        return None
    return "embedding_models" if kind.endswith("embedding") else "completion_models" if kind.endswith("chat") else None


def _empty_sections(node: dict[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    """Empty mappings, the deepest first, so that a section of empty sections is empty too once they are gone."""
    for key in list(node):
        if isinstance(node[key], dict):
            yield from _empty_sections(node[key], (*path, key))
            if not node[key]:
                yield (*path, key)
