"""A new workspace: it loads, it keeps what people made, and it is what the repository itself uses."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from graphrag_assets.cli.init import InitError, init_workspace, template, workspace_files
from graphrag_assets.prompt_files import packaged_prompts
from graphrag_assets.settings import Settings
from graphrag_assets.settings_file import load_workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GRAPHRAG") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", ["workspace.yaml", "dagster.yaml"])
def test_the_repository_uses_the_templates(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == template(name)


def test_without_a_model(tmp_path: Path) -> None:
    written = init_workspace(tmp_path / "new")
    assert written == workspace_files(tmp_path / "new")
    assert all(path.is_file() for path in written)
    assert (tmp_path / "new" / "input").is_dir()
    workspace = load_workspace(tmp_path / "new")
    assert workspace.settings == Settings()
    assert workspace.notices == ()
    for name, text in packaged_prompts().items():
        assert (tmp_path / "new" / "prompts" / f"{name}.txt").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("model", "embedding", "completions", "vectors"),
    [
        ("openai/gpt-4.1-mini", None, ("openai", "gpt-4.1-mini"), ("openai", "text-embedding-3-small")),
        ("gpt-4.1", None, ("openai", "gpt-4.1"), ("openai", "text-embedding-3-small")),
        ("anthropic/claude-sonnet-4-5", None, ("anthropic", "claude-sonnet-4-5"), None),
        ("openrouter/meta-llama/llama-3.1:free", None, ("openrouter", "meta-llama/llama-3.1:free"), None),
        ("azure/my-gpt", None, ("azure", "my-gpt"), None),
        ("ollama/llama3.1:8b", "ollama/nomic-embed-text", ("ollama", "llama3.1:8b"), ("ollama", "nomic-embed-text")),
        ("anthropic/claude", "voyage/voyage-3", ("anthropic", "claude"), ("voyage", "voyage-3")),
        (None, "openai/text-embedding-3-large", None, ("openai", "text-embedding-3-large")),
    ],
)
def test_what_is_written_loads(
    tmp_path: Path,
    model: str | None,
    embedding: str | None,
    completions: tuple[str, str] | None,
    vectors: tuple[str, str] | None,
) -> None:
    init_workspace(tmp_path, model, embedding)
    settings = load_workspace(tmp_path).settings
    found = [(m.model_provider, m.model) for m in settings.completion_models.values()]
    assert found == ([completions] if completions else [])
    found = [(m.model_provider, m.model) for m in settings.embedding_models.values()]
    assert found == ([vectors] if vectors else [])


def test_keys_come_from_dotenv(tmp_path: Path) -> None:
    init_workspace(tmp_path, "anthropic/claude", "voyage/voyage-3")
    assert "api_key" in {n.key.split(".")[-1] for n in load_workspace(tmp_path).notices}  # still empty: told
    (tmp_path / ".env").write_text("GRAPHRAG_API_KEY=one\nGRAPHRAG_EMBEDDING_API_KEY=two\n")
    workspace = load_workspace(tmp_path)
    assert workspace.notices == ()
    keys = [
        *workspace.settings.completion_models.values(),
        *workspace.settings.embedding_models.values(),
    ]
    assert [m.api_key.get_secret_value() for m in keys if m.api_key] == ["one", "two"]


def test_dotenv_is_private_and_ignored_by_git(tmp_path: Path) -> None:
    init_workspace(tmp_path, "openai/gpt-4.1")
    assert (tmp_path / ".env").read_text() == "GRAPHRAG_API_KEY=\n"
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ignored = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", ".env", ".cache/llm.sqlite", ".dagster/x", "output/x"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert ignored == [".env", ".cache/llm.sqlite", ".dagster/x", "output/x"]


def test_settings_are_not_replaced_unless_asked(tmp_path: Path) -> None:
    init_workspace(tmp_path)
    own = {name: tmp_path / name for name in ("settings.yaml", "prompts/local_search_system_prompt.txt", ".env")}
    for path in own.values():
        path.write_text("# mine\n")
    with pytest.raises(InitError, match="use --force"):
        init_workspace(tmp_path)
    assert all(path.read_text() == "# mine\n" for path in own.values())
    written = init_workspace(tmp_path, force=True)
    assert set(workspace_files(tmp_path)) - set(written) == {tmp_path / ".env"}
    assert own[".env"].read_text() == "# mine\n"
    assert all(own[name].read_text() != "# mine\n" for name in own if name != ".env")


def test_other_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "input").mkdir()
    kept = [tmp_path / ".gitignore", tmp_path / "dagster.yaml", tmp_path / "prompts" / "basic_search_system_prompt.txt"]
    for path in [*kept, tmp_path / "input" / "a.txt"]:
        path.write_text("mine")
    written = init_workspace(tmp_path)
    assert set(workspace_files(tmp_path)) - set(written) == set(kept)
    assert all(path.read_text() == "mine" for path in [*kept, tmp_path / "input" / "a.txt"])


def test_a_settings_file_of_another_name_counts(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(InitError, match=r"settings\.json exists"):
        init_workspace(tmp_path)
    with pytest.raises(InitError, match="remove it first"):
        init_workspace(tmp_path, force=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "settings.json"]


@pytest.mark.parametrize("model", ["/x", "openai/", "a b/c", 'x/"y', "x/${HOME}"])
def test_models_that_make_no_sense(tmp_path: Path, model: str) -> None:
    with pytest.raises(InitError, match="expected provider/name"):
        init_workspace(tmp_path / "new", model)
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InitError, match="cannot write the workspace"):
        init_workspace(tmp_path / "file" / "below")


def test_workspace_yaml_names_the_location() -> None:
    (entry,) = yaml.safe_load(template("workspace.yaml"))["load_from"]
    assert entry["python_module"] == {"module_name": "graphrag_assets.definitions", "location_name": "graphrag"}


def test_dagster_takes_dagster_yaml(tmp_path: Path) -> None:
    from dagster import DagsterInstance

    (tmp_path / "dagster.yaml").write_text(template("dagster.yaml"))
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.telemetry_enabled is False
        assert instance.nux_enabled is False
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 259_200
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 2
