"""settings.yaml as people write it: their own, Microsoft GraphRAG's, and wrong ones."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.settings import Notice, Settings, Workspace
from graphrag_assets.settings_file import SettingsError, load_workspace, redacted, settings_notices
from graphrag_assets.settings_models import model_uses
from graphrag_assets.settings_reference import translate
from graphrag_assets.settings_source import substitute

FILES = Path(__file__).parent / "settings_files"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GRAPHRAG") or name.endswith("_API_KEY") or name.startswith("OPENAI_"):
            monkeypatch.delenv(name)


def load(folder: Path, text: str, name: str = "settings.yaml") -> Workspace:
    (folder / name).write_text(text, encoding="utf-8")
    return load_workspace(folder)


def refused(folder: Path, text: str, name: str = "settings.yaml") -> str:
    with pytest.raises(SettingsError) as caught:
        load(folder, text, name)
    message = str(caught.value)
    assert "pydantic" not in message
    assert "https://errors" not in message
    assert "Traceback" not in message
    return message


# --- finding and parsing ---------------------------------------------------------------------------------------------


def test_without_a_file_the_embedded_defaults_run(tmp_path: Path) -> None:
    workspace = load_workspace(tmp_path)
    assert workspace.settings == Settings()
    assert workspace.settings.effective_method == "fast"
    assert workspace.file is None
    assert workspace.notices == ()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "chunking:\nextract_graph:\n", "{}"])
def test_empty_files_and_sections_are_defaults(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).settings == Settings()


def test_root_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.yaml").write_text("chunking: {size: 321}")
    monkeypatch.setenv("GRAPHRAG_ROOT", str(tmp_path))
    workspace = load_workspace()
    assert (workspace.root, workspace.settings.chunking.size) == (tmp_path, 321)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere does not exist; create it with graphrag-assets init"):
        load_workspace(tmp_path / "nowhere")
    (tmp_path / "settings.yaml").touch()
    with pytest.raises(SettingsError, match="is a file; give its folder"):
        load_workspace(tmp_path / "settings.yaml")


def test_json_and_yml(tmp_path: Path) -> None:
    assert (
        load(tmp_path, json.dumps({"chunking": {"size": 99, "overlap": 9}}), "settings.json").settings.chunking.size
        == 99
    )
    (tmp_path / "settings.json").unlink()
    assert load(tmp_path, "chunking: {size: 98, overlap: 9}", "settings.yml").settings.chunking.size == 98


def test_a_second_settings_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    assert [n.key for n in load(tmp_path, "chunking: {size: 300}").notices] == ["settings.json"]


def test_yaml_errors_have_a_line_and_no_stack(tmp_path: Path) -> None:
    message = refused(tmp_path, "chunking:\n  size: 5\n overlap: [1\n")
    assert re.search(r"settings.yaml, line [34], column \d+: not valid YAML", message)
    assert "\n" not in message
    assert "line 2, column" in refused(tmp_path, "chunking:\n\tsize: 5\n")


def test_json_errors_have_a_line(tmp_path: Path) -> None:
    assert "settings.json, line 2, column" in refused(tmp_path, '{\n "a": }', "settings.json")


def test_what_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "found a list" in refused(tmp_path, "- a\n- b\n")
    assert "found text" in refused(tmp_path, "just words\n")
    (tmp_path / "settings.yaml").unlink()
    assert "expected an object" in refused(tmp_path, "[]", "settings.json")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "chunking:\n  size: 5\n  size: 6\n")
    assert "line 3: the key chunking.size stands twice (first in line 2)" in message
    (tmp_path / "settings.yaml").unlink()
    assert "'size' stands twice" in refused(tmp_path, '{"size": 1, "size": 2}', "settings.json")


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_bytes("language: é".encode("latin-1"))
    with pytest.raises(SettingsError, match="save the file as UTF-8"):
        load_workspace(tmp_path)


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_bytes(b"\xef\xbb\xbflanguage: de\n")
    assert load_workspace(tmp_path).settings.language == "de"


def test_aliases_that_explode_are_refused(tmp_path: Path) -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    assert "aliases that grow without end" in refused(tmp_path, text)
    assert "aliases that grow without end" in refused(tmp_path, "a: &a\n  b: *a\n")


def test_words_that_yaml_takes_for_something_else(tmp_path: Path) -> None:
    model = "completion_models: {m: {model: x, api_version: 2024-05-01, api_base: 'http://h'}}"
    text = f"language: no\nextract_claims: {{enabled: yes}}\n{model}"
    settings = load(tmp_path, text).settings
    assert settings.language == "no"
    assert settings.extract_claims.enabled is True
    assert settings.completion_models["m"].api_version == "2024-05-01"


def test_anchors_and_merges(tmp_path: Path) -> None:
    text = """
completion_models:
  a: &base {model: one, api_base: "http://h/v1"}
  b:
    <<: *base
    model: two
method: fast
local_search: {completion_model_id: a}
global_search: {completion_model_id: b}
drift_search: {completion_model_id: a}
basic_search: {completion_model_id: a}
"""
    models = load(tmp_path, text).settings.completion_models
    assert (models["b"].model, models["b"].api_base) == ("two", "http://h/v1")


# --- substitution ----------------------------------------------------------------------------------------------------

MODEL = "completion_models:\n  default_completion_model:\n    model: m\n    api_key: {key}\n"


def test_variables_in_values_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t $HOME ${HOME}")
    monkeypatch.setenv("FOLDER", "docs")
    text = (
        MODEL.format(key="${MY_KEY} # and $UNSET in a comment")
        + "input_storage: {base_dir: $FOLDER/new}\nchunking: {size: '${SIZE:-700}'}\n"
    )
    settings = load(tmp_path, text).settings
    key = settings.completion_models["default_completion_model"].api_key
    assert key is not None
    assert key.get_secret_value() == "s3cr3t $HOME ${HOME}"
    assert settings.input_storage.base_dir == "docs/new"
    assert settings.chunking.size == 700
    monkeypatch.setenv("SIZE", "650")
    assert load(tmp_path, text).settings.chunking.size == 650


@pytest.mark.parametrize("pattern", [r".*\.txt$", r".*\.(txt|md)$", r"^a$|^b$", r".*\.txt$$"])
def test_a_dollar_sign_in_a_pattern(tmp_path: Path, pattern: str) -> None:
    found = load(tmp_path, yaml.safe_dump({"input": {"file_pattern": pattern}})).settings.input.file_pattern
    assert found == pattern.replace("$$", "$")


def test_numbers_from_variables_in_call_args_are_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPERATURE", "0.25")
    text = "completion_models: {m: {model: x, api_base: 'http://h', call_args: {temperature: '${TEMPERATURE}'}}}"
    assert load(tmp_path, text).settings.completion_models["m"].call_args == {"temperature": 0.25}


def test_an_unset_variable_names_key_and_variable(tmp_path: Path) -> None:
    message = refused(tmp_path, MODEL.format(key="${NO_SUCH_KEY}") + "storage: {base: $NO_SUCH_FOLDER}\n")
    assert (
        "line 4: completion_models.default_completion_model.api_key: the environment variable NO_SUCH_KEY is not set"
        in message
    )
    assert "line 5: storage.base: the environment variable NO_SUCH_FOLDER is not set" in message


def test_an_unset_variable_in_a_model_that_nobody_uses_is_told(tmp_path: Path) -> None:
    text = (
        MODEL.format(key="k") + "  spare:\n    model: other\n    timeout: ${NO_TIMEOUT}\n    api_key: ${NO_SUCH_KEY}\n"
    )
    workspace = load(tmp_path, text)
    assert list(workspace.settings.completion_models) == ["default_completion_model"]
    (notice,) = workspace.notices
    assert (notice.key, notice.what) == ("completion_models.spare", "left out")
    assert "NO_SUCH_KEY, NO_TIMEOUT" in notice.why


def test_an_unset_key_does_not_turn_the_method_to_fast(tmp_path: Path) -> None:
    assert "NO_SUCH_KEY is not set" in refused(tmp_path, "completion_models: {only: {model: x, api_key: $NO_SUCH_KEY}}")


def test_a_malformed_variable_is_told(tmp_path: Path) -> None:
    assert "storage.base: '${' begins a variable" in refused(tmp_path, "storage: {base: '${a-b}'}")


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.lists(st.text(), max_size=3), max_size=3))
def test_substitution_never_fails_and_escaping_undoes_it(tree: dict[str, object]) -> None:
    def escaped(value: object) -> object:
        if isinstance(value, list):
            return [escaped(child) for child in value]
        return value.replace("$", "$$") if isinstance(value, str) else value

    substitute(tree, {}, lambda path, message: None)
    problems: list[str] = []
    assert (
        substitute({k: escaped(v) for k, v in tree.items()}, {}, lambda path, message: problems.append(message)) == tree
    )
    assert problems == []


# --- .env ------------------------------------------------------------------------------------------------------------


def test_dotenv_is_read_and_existing_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECOND_KEY", "from the shell")
    (tmp_path / ".env").write_text("FIRST_KEY=from the file\nSECOND_KEY=lost\nGRAPHRAG__CHUNKING__SIZE=444\n")
    text = MODEL.format(key="$FIRST_KEY-$SECOND_KEY")
    settings = load(tmp_path, text).settings
    key = settings.completion_models["default_completion_model"].api_key
    assert key is not None
    assert key.get_secret_value() == "from the file-from the shell"
    assert settings.chunking.size == 444
    (tmp_path / ".env").unlink()
    assert "FIRST_KEY is not set" in refused(tmp_path, text)


def test_two_workspaces_in_one_process_keep_their_keys(tmp_path: Path) -> None:
    keys = {}
    for name in ("one", "two", "one"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / ".env").write_text(f"WORKSPACE_KEY=key-of-{name}\n")
        key = (
            load(folder, MODEL.format(key="${WORKSPACE_KEY}"))
            .settings.completion_models["default_completion_model"]
            .api_key
        )
        assert key is not None
        keys[name] = key.get_secret_value()
        assert keys[name] == f"key-of-{name}"
    empty = tmp_path / "empty"
    empty.mkdir()
    load_workspace(empty)
    assert "WORKSPACE_KEY" not in os.environ


# --- overrides -------------------------------------------------------------------------------------------------------


def test_overrides_are_yaml_and_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "METHOD": "fast",
        "CHUNKING__SIZE": "600",
        "EXTRACT_GRAPH__ENTITY_TYPES": "[person, boat]",
        "EXTRACT_CLAIMS__ENABLED": "true",
        "LOCAL_SEARCH__PROMPT": "null",
        "COMPLETION_MODELS__MYMODEL__API_KEY": "0123456",
        "COMPLETION_MODELS__MYMODEL__CALL_ARGS__TEMPERATURE": "0.5",
        "COMPLETION_MODELS__MYMODEL__PRICES": "{input_per_million: 1, output_per_million: 2}",
    }.items():
        monkeypatch.setenv(f"GRAPHRAG__{name}", value)
    text = "completion_models:\n  MyModel: {model: m, api_key: '${NOT_SET_BUT_OVERRIDDEN}'}\n"
    text += "chunking: {size: 5000}\nlocal_search: {prompt: mine.txt}\n"
    settings = load(tmp_path, text).settings
    model = settings.completion_models["MyModel"]
    assert settings.method == "fast"
    assert settings.chunking.size == 600
    assert settings.extract_graph.entity_types == ["person", "boat"]
    assert settings.extract_claims.enabled
    assert settings.local_search.prompt is None
    assert model.api_key is not None
    assert model.api_key.get_secret_value() == "0123456"
    assert model.call_args == {"temperature": 0.5}
    assert model.prices is not None
    assert model.prices.output_per_million == 2


def test_overrides_work_without_a_file_and_are_named_when_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHRAG__CHUNKING__SISE", "600")
    with pytest.raises(
        SettingsError, match=r"GRAPHRAG__CHUNKING__SISE: chunking.sise: unknown key; did you mean chunking.size\?"
    ):
        load_workspace(tmp_path)
    monkeypatch.delenv("GRAPHRAG__CHUNKING__SISE")
    monkeypatch.setenv("GRAPHRAG__CHUNKING__SIZE", "many")
    with pytest.raises(
        SettingsError, match=r"GRAPHRAG__CHUNKING__SIZE: chunking.size: expected a whole number, found 'many'"
    ):
        load_workspace(tmp_path)
    monkeypatch.setenv("GRAPHRAG__CHUNKING__SIZE", "[1, ")
    with pytest.raises(SettingsError, match="GRAPHRAG__CHUNKING__SIZE: not valid YAML"):
        load_workspace(tmp_path)
    monkeypatch.delenv("GRAPHRAG__CHUNKING__SIZE")
    monkeypatch.setenv("GRAPHRAG__METHOD__DEEPER", "1")
    (tmp_path / "settings.yaml").write_text("method: fast")
    with pytest.raises(SettingsError, match="GRAPHRAG__METHOD__DEEPER: method is a value, not a section"):
        load_workspace(tmp_path)


def test_overrides_of_the_references_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHRAG__CHUNKS__SIZE", "610")
    assert load(tmp_path, "chunks: {size: 800, overlap: 10}").settings.chunking.size == 610


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("chunking: {sise: 5}", "chunking.sise: unknown key; did you mean chunking.size?"),
        ("chunkng: {size: 5}", "chunkng: unknown key; did you mean chunking?"),
        ("entity_types: [a]", "entity_types: unknown key; did you mean extract_graph.entity_types?"),
        ("storage: {zzz: 5}", "storage.zzz: unknown key; known here: base"),
        ("completion_models: {m: {model: x, retry: {max_retrys: 3}}}", "did you mean completion_models.m.retry.max_"),
        ("completion_models: {m: {api_base: 'http://h'}}", "completion_models.m.model: is missing"),
        ("chunking: {size: -1}", "chunking.size: expected a number above 0, found -1"),
        ("chunking: {size: 1.5}", "chunking.size: expected a whole number, found 1.5"),
        ("chunking: {size: 100, overlap: 100}", "chunking.overlap (100) must be smaller than chunking.size (100)"),
        ("chunking: {encoding_model: o200k}", "chunking.encoding_model: 'o200k' is no tiktoken encoding; it may be one of"),
        ("limits: {redis_url: 'host:6379'}", "limits.redis_url: expected an address that begins with redis://"),
        ("cache: {redis_url: 'http://host'}", "cache.redis_url: expected an address that begins with redis://"),
        ("budget: {usd_per_day: .inf}", "budget.usd_per_day: expected a number, found inf"),
        ("concurrent_requests: .inf", "concurrent_requests: expected a"),
        ("chunking: 5", "chunking: expected a section with keys, found 5"),
        ("chunking: {type: token}", "chunking.type: expected one of tokens, sentence, stable, found 'token'"),
        ("extract_claims: {enabled: maybe}", "extract_claims.enabled: expected true or false, found 'maybe'"),
        ("extract_graph: {entity_types: person}", "expected a list, such as [a, b], found 'person'"),
        ("storage: {base: 5}", "storage.base: expected text, found 5; put it in quotes"),
        ("prune_graph: {min_edge_weight_pct: 200}", "expected a number of at most 100.0, found 200"),
        ("input: {file_pattern: '('}", "input.file_pattern: not a regular expression"),
        ("input: {encoding: utf-99}", "input.encoding: 'utf-99' is not an encoding"),
        ("storage: {base: 'gs://x/y'}", "storage.base: gs:// is not supported"),
        ("input_storage: {type: s3, base_dir: in}", "input_storage.base_dir: type s3 needs an address"),
        ("input_storage: {type: blob}", "input_storage.type: expected one of file, s3, found 'blob'"),
        ("output: {type: cosmosdb}", "output.type: 'cosmosdb' is not supported"),
        ("llm: {model: x}", "llm: a section of Microsoft GraphRAG version 1; its place is completion_models"),
        ("method: standard", "method: standard needs an entry in completion_models"),
    ],
)  # fmt: skip
def test_messages(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refused(tmp_path, text)


@pytest.mark.parametrize("password", ["xyzzy/plugh", "xyzzy#plugh", "xyzzy?plugh", "123/plugh", "123?plugh", "1#plugh"])
@pytest.mark.parametrize("section", ["limits", "cache"])
def test_a_password_that_would_be_taken_for_a_port_is_not_told(tmp_path: Path, section: str, password: str) -> None:
    message = refused(tmp_path, f"{section}: {{redis_url: 'redis://user:{password}@127.0.0.1:1/0'}}")
    assert f"{section}.redis_url: expected an address such as redis://user:password@host" in message
    assert "xyzzy" not in message
    assert "plugh" not in message


def test_addresses_of_redis(tmp_path: Path) -> None:
    for address in ("redis://host", "redis://:p%2Fw@[::1]:6379/0?x=1", "rediss://u:p@host:1/2", "unix:///run/a@b.sock"):
        (tmp_path / "settings.yaml").write_text(f"limits: {{redis_url: '{address}'}}")
        limits = load_workspace(tmp_path).settings.limits
        assert limits.redis_url is not None
        assert limits.redis_url.get_secret_value() == address


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    message = refused(tmp_path, "storage: {base: ''}\nchunking:\n  size: x\n  sise: 4\nmethd: fast\n")
    assert message.splitlines()[0].endswith("settings.yaml has 3 problems:")
    assert [line.strip().split(":")[0] for line in message.splitlines()[1:]] == ["line 3", "line 4", "line 5"]


def test_messages_name_the_key_as_it_was_written(tmp_path: Path) -> None:
    assert "line 2: chunks.size: expected a whole number" in refused(tmp_path, "chunks:\n  size: big\n")
    message = refused(
        tmp_path,
        "models:\n  m:\n    type: chat\n    model: x\n    api_base: http://h\n    max_retries: lots\n    sise: 1\n",
    )
    assert "line 6: models.m.max_retries: expected a whole number" in message
    assert "line 7: models.m.sise: unknown key" in message


def test_keys_never_show_in_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t")
    message = refused(tmp_path, "completion_models: {m: {model: x, api_key: [$MY_KEY], call_args: 5}}")
    assert "s3cr3t" not in message
    assert "api_key" in message
    assert "s3cr3t" not in refused(tmp_path, "completion_models: {m: {model: x, apikey: $MY_KEY}}")


# --- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("model_provider: azure", "api_base: the provider azure needs it"),
        ("azure_deployment_name: d", "azure_deployment_name: is only for the provider azure"),
        (
            "model_provider: azure, api_base: 'https://h', auth_method: azure_managed_identity, api_key: k",
            "api_key: must not be set with",
        ),
        ("auth_method: azure_managed_identity", "auth_method: azure_managed_identity is only for the provider azure"),
        ("rate_limit: {period_in_seconds: 60}", "rate_limit: needs requests_per_period or tokens_per_period"),
        ("retry: {base_delay: 1}", "retry.base_delay: must be above 1"),
        ("retry: {max_delay: 0}", "retry.max_delay: must be above 0"),
        ("type: mock", "type: expected one of litellm, found 'mock'"),
    ],
)  # fmt: skip
def test_entries_that_contradict_themselves(tmp_path: Path, entry: str, expected: str) -> None:
    assert f"completion_models.m.{expected}" in refused(tmp_path, f"completion_models: {{m: {{model: x, {entry}}}}}")


def test_a_stage_that_names_a_model_that_does_not_exist(tmp_path: Path) -> None:
    base = "completion_models: {small: {model: x, api_base: 'http://h'}, large: {model: y, api_base: 'http://h'}}\n"
    names = "\n".join(
        f"{s}: {{completion_model_id: small}}"
        for s in ("local_search", "global_search", "drift_search", "basic_search")
    )
    message = refused(tmp_path, base + names + "\nextract_graph: {completion_model_id: smal}\n")
    assert "extract_graph.completion_model_id: completion_models has no entry 'smal', it has large, small" in message
    assert "did you mean 'small'?" in message
    assert "community_reports.completion_model_id: completion_models has no entry 'default_completion_model'" in message
    # The fast method asks no model while indexing, so only the searches count.
    settings = load(tmp_path, base + names + "\nextract_graph: {completion_model_id: smal}\nmethod: fast\n").settings
    assert {use.stage for use in model_uses(settings)} == {
        "local_search",
        "global_search",
        "drift_search",
        "basic_search",
    }


def test_the_only_model_serves_all_stages(tmp_path: Path) -> None:
    text = "completion_models: {mine: {model: x, api_base: 'http://h'}}\n"
    text += "embedding_models: {vectors: {model: y, api_base: 'http://h'}}"
    settings = load(tmp_path, text).settings
    assert settings.effective_method == "standard"
    assert {use.model_id for use in model_uses(settings)} == {"mine", "vectors"}
    assert settings.completion_model(settings.community_reports.completion_model_id).model == "x"


def test_a_missing_key_is_told_where_one_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [n.key for n in load(tmp_path, "completion_models: {m: {model: x}}").notices] == [
        "completion_models.m.api_key"
    ]
    for entry in ("model: x, model_provider: ollama", "model: x, api_base: 'http://h/v1'", "model: x, api_key: k"):
        assert load(tmp_path, f"completion_models: {{m: {{{entry}}}}}").notices == ()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert load(tmp_path, "completion_models: {m: {model: x, model_provider: anthropic}}").notices == ()


# --- Microsoft GraphRAG's files --------------------------------------------------------------------------------------


def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> Workspace:
    monkeypatch.setenv("GRAPHRAG_API_KEY", "k-123")
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    for name in re.findall(r"prompts/(\w+\.txt)", (FILES / f"reference_v{version}.yaml").read_text()):
        (prompts / name.replace("drift_search_reduce_prompt", "drift_reduce_prompt")).write_text("{input_text}")
    return load(tmp_path, (FILES / f"reference_v{version}.yaml").read_text(encoding="utf-8"))


def test_version_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = reference(tmp_path, monkeypatch, 3)
    s = workspace.settings
    model = s.completion_models["default_completion_model"]
    assert list(s.completion_models) == ["default_completion_model", "strong_model"]
    assert (model.model_provider, model.azure_deployment_name, model.api_version) == (
        "azure",
        "gpt-41-east",
        "2024-05-01",
    )
    assert (model.retry.max_retries, model.retry.base_delay, model.retry.max_delay) == (5, 2.5, 30)
    assert model.rate_limit is not None
    assert (model.rate_limit.requests_per_period, model.rate_limit.tokens_per_period) == (200, 150_000)
    assert model.call_args == {"temperature": 0.2, "max_tokens": 4000}
    assert s.concurrent_requests == 12
    assert (s.input.type, s.input.file_pattern, s.input.id_column) == ("csv", r".*\.csv$", "key")
    assert (s.input_storage.base_dir, s.storage.base, s.cache.path) == ("documents", "index", "cache/llm.sqlite")
    assert (s.chunking.type, s.chunking.size, s.chunking.prepend_metadata) == ("sentence", 600, ["headline"])
    assert s.extract_graph.prompt == "prompts/extract_graph.txt"
    assert s.extract_claims.description == "Anything that was promised."
    assert s.extract_graph_nlp.text_analyzer.exclude_nouns == Settings().extract_graph_nlp.text_analyzer.exclude_nouns
    assert s.prune_graph.max_node_freq_std == 2.5
    assert (s.cluster_graph.seed, s.cluster_graph.use_lcc) == (0xDEADBEEF, True)
    assert s.community_reports.completion_model_id == "strong_model"
    assert s.drift_search.reduce_prompt is None  # its file is prompts/drift_reduce_prompt.txt, which is the usual place
    chosen = s.global_search
    assert (chosen.dynamic_search_threshold, chosen.dynamic_search_num_repeats) == (2, 3)
    assert (chosen.dynamic_search_keep_parent, chosen.dynamic_search_use_summary) == (True, True)
    assert chosen.dynamic_search_max_level == 4
    asked = {n.key for n in workspace.notices if not n.harmless}
    assert asked == {
        "vector_store.index_schema.text_unit_text.index_name",
        "snapshots.graphml",
        "drift_search.reduce_max_completion_tokens",
        "drift_search.local_search_temperature",
        "drift_search.local_search_llm_max_gen_completion_tokens",
    }


def test_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = reference(tmp_path, monkeypatch, 2)
    s = workspace.settings
    chat, azure = s.completion_models["default_chat_model"], s.completion_models["azure_chat"]
    vectors = s.embedding_models["default_embedding_model"]
    assert list(s.completion_models) == ["default_chat_model", "azure_chat"]
    assert list(s.embedding_models) == ["default_embedding_model"]
    assert (chat.timeout, chat.retry.max_retries, chat.retry.max_delay) == (240, 4, 20)
    assert chat.rate_limit is not None
    assert (chat.rate_limit.tokens_per_period, chat.rate_limit.requests_per_period) == (50_000, None)
    assert chat.call_args == {
        "max_tokens": 3000,
        "temperature": 0,
        "reasoning_effort": "low",
        "top_p": 1,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "extra_headers": {"OpenAI-Organization": "org-1"},
    }
    assert (azure.model_provider, azure.auth_method, azure.azure_deployment_name) == (
        "azure",
        "azure_managed_identity",
        "gpt-4o-west",
    )
    assert azure.structured_output is False
    assert (vectors.model_provider, vectors.model, vectors.retry.max_retries) == ("openai", "text-embedding-3-small", 7)
    assert s.concurrent_requests == 40
    assert (s.input.type, s.input.file_pattern, s.input.text_column) == ("text", r".*\.txt$", "body")
    assert (s.input_storage.base_dir, s.storage.base, s.cache.path) == ("documents", "index", "answers/llm.sqlite")
    assert (s.chunking.size, s.chunking.overlap, s.chunking.encoding_model) == (800, 80, "cl100k_base")
    assert s.chunking.prepend_metadata == ["author", "year"]
    assert s.summarize_descriptions.completion_model_id == "azure_chat"
    assert s.summarize_descriptions.max_input_tokens == 3500
    assert s.community_reports.completion_model_id == "default_chat_model"  # its default id in version 2
    assert (s.local_search.completion_model_id, s.local_search.max_context_tokens) == ("azure_chat", 8000)
    assert s.global_search.max_context_tokens == 8001
    told = {n.key: n for n in workspace.notices}
    for key in (
        "models.default_chat_model.proxy",
        "models.default_chat_model.requests_per_minute",
        "models.default_chat_model.retry_strategy",
        "models.default_embedding_model.max_retries",
        "outputs.second.base_dir",
        "reporting.type",
        "vector_store.default_vector_store.type",
        "vector_store.default_vector_store.api_key",
        "workflows",
        "parallelization.num_threads",
        "embed_text.names",
        "extract_graph.strategy",
        "extract_graph_nlp.text_analyzer.extractor_type",
        "embed_graph.enabled",
        "local_search.temperature",
        "global_search.map_max_tokens",
    ):
        assert not told[key].harmless, key
    for key in (
        "umap.enabled",
        "snapshots.embeddings",
        "embed_graph.dimensions",
        "parallelization.stagger",
        "async_mode",
    ):
        assert key not in told or told[key].harmless


@pytest.mark.parametrize("version", [2, 3])
def test_no_key_of_the_reference_is_lost_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Every key of the file is one of ours at the same place, or has a notice of its own."""
    tree = yaml.safe_load((FILES / f"reference_v{version}.yaml").read_text())
    translation = translate(tree, tmp_path)
    assert translation.problems == []
    told = {notice.key for notice in translation.notices}

    def leaves(node: dict[str, object], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
        found: dict[tuple[str, ...], object] = {}
        for key, value in node.items():
            found |= leaves(value, (*path, key)) if isinstance(value, dict) and value else {(*path, key): value}
        return found

    kept = leaves(translation.tree)
    for written, value in leaves(tree).items():
        if "models" in written[0] and (written[-1] == "type" or value is None):
            continue  # type says which of the two sections an entry belongs to; null asks for nothing
        if written[0] == "models":  # an entry moves as a whole; each of its keys must be there or told by itself
            section = "embedding_models" if "embedding" in written[1] else "completion_models"
            assert (section, *written[1:]) in kept or ".".join(written) in told, written
        else:
            prefixes = {".".join(written[:length]) for length in range(1, len(written) + 1)}
            assert written in kept or prefixes & told, written


def test_secrets_never_show_in_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        workspace = reference(tmp_path, monkeypatch, 2)
    shown = (
        caplog.text + "".join(map(str, workspace.notices)) + repr(workspace) + json.dumps(redacted(workspace.settings))
    )
    for secret in ("SECRET-CONNECTION", "SECRET-VECTOR-KEY", "k-123"):
        assert secret not in shown


def test_notices_are_logged_once_by_weight(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "umap: {enabled: true}\nchunks: {size: 300}\n"
    with caplog.at_level(logging.INFO, logger="graphrag_assets"):
        load(tmp_path, text)
        load_workspace(tmp_path)
    assert [(r.levelname, r.getMessage().split(":")[1].strip()) for r in caplog.records] == [
        ("INFO", "chunks.size"),
        ("WARNING", "umap.enabled"),
    ]
    assert settings_notices(tmp_path) == list(load_workspace(tmp_path).notices)


def test_our_own_file_has_no_notices(tmp_path: Path) -> None:
    own = Settings().model_dump(mode="json")
    assert load(tmp_path, yaml.safe_dump(own)).notices == ()
    assert load_workspace(tmp_path).settings == Settings()


def test_the_new_key_wins_over_the_old_one(tmp_path: Path) -> None:
    workspace = load(tmp_path, "chunks: {size: 300}\nchunking: {size: 400}\n")
    assert workspace.settings.chunking.size == 400
    assert Notice("chunks.size", "not used", "chunking.size is set too, and means the same") in workspace.notices


def test_prompts_that_the_reference_names_but_did_not_write(tmp_path: Path) -> None:
    text = "extract_graph: {prompt: prompts/extract_graph.txt}\nlocal_search: {prompt: prompts/mine.txt}"
    workspace = load(tmp_path, text)
    assert workspace.settings.extract_graph.prompt is None
    assert (
        workspace.settings.local_search.prompt == "prompts/mine.txt"
    )  # a file of one's own must exist when it is used
    assert [(n.key, n.harmless) for n in workspace.notices] == [("extract_graph.prompt", False)]


def test_caches(tmp_path: Path) -> None:
    assert load(tmp_path, "cache: {type: none}").settings.cache.enabled is False
    workspace = load(tmp_path, "cache: {type: memory}")
    assert workspace.settings.cache.enabled
    assert [n.key for n in workspace.notices] == ["cache.type"]


def test_mock_models_are_refused(tmp_path: Path) -> None:
    assert "models.m.type: expected chat or embedding, found 'mock_chat'" in refused(
        tmp_path, "models: {m: {type: mock_chat, model: x}}"
    )


# --- display ---------------------------------------------------------------------------------------------------------


def test_redacted(tmp_path: Path) -> None:
    text = """
completion_models:
  m:
    model: x
    api_key: very-secret-1
    api_base: https://user:very-secret-2@host/v1
    call_args: {extra_headers: {Authorization: very-secret-3, X-Api-Key: very-secret-4}, max_tokens: 5}
"""
    shown = redacted(load(tmp_path, text).settings)
    assert "very-secret" not in json.dumps(shown)
    assert shown["completion_models"]["m"]["call_args"]["max_tokens"] == 5
    assert shown["chunking"]["size"] == 1200


def test_the_model_that_chooses_a_search_must_exist(tmp_path: Path) -> None:
    models = "completion_models: {m: {model_provider: openai, model: x, api_key: k}}\n"
    (tmp_path / "settings.yaml").write_text(models)
    assert load_workspace(tmp_path).settings.auto_search.completion_model_id is None
    (tmp_path / "settings.yaml").write_text(models + "auto_search: {completion_model_id: none_such}\n")
    with pytest.raises(SettingsError, match=r"auto_search\.completion_model_id"):
        load_workspace(tmp_path)
