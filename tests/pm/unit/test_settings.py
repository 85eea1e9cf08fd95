"""One table of settings: precedence, clear words, paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.model.config import HOME_KEYS
from perdure_pm.model.errors import UsageFault
from perdure_pm.model.settings import BOOLEAN, FOREIGN, SETTINGS, Value, network_of, parse_boolean, resolve

pytestmark = pytest.mark.proves("cli-settings-one-table")


def resolved(flags: dict[str, Value], environ: dict[str, str], config: dict[str, object]) -> dict[str, Value]:
    return resolve(SETTINGS, flags, environ, config, config_directory=Path("/home"))


def test_names_flags_variables_and_keys_are_unique() -> None:
    for column in ("name", "flag", "variable", "config_key"):
        found = [getattr(setting, column) for setting in SETTINGS if getattr(setting, column) is not None]
        assert len(found) == len(set(found)), column


def test_every_flag_has_a_variable_of_the_same_name() -> None:
    for setting in SETTINGS:
        if setting.flag is not None:
            assert setting.flag == f"--{setting.name}"
            assert setting.variable == f"PERDURE_{setting.name.upper().replace('-', '_')}"


def test_every_config_key_exists_with_the_kind_of_the_setting() -> None:
    kinds = {key.name: key.kind for key in HOME_KEYS}
    for setting in SETTINGS:
        if setting.config_key is not None:
            assert (kinds[setting.config_key] == "boolean") is (setting.kind == BOOLEAN)


@pytest.mark.parametrize(
    ("flag", "variable", "key", "expected"),
    [
        ("https://f", "https://v", "https://k", "https://f"),
        (None, "https://v", "https://k", "https://v"),
        (None, "", "https://k", "https://k"),
        (None, None, None, None),
    ],
)
def test_flag_wins_over_variable_over_key(
    flag: str | None, variable: str | None, key: str | None, expected: str | None
) -> None:
    environ = {} if variable is None else {"PERDURE_INDEX_URL": variable}
    assert resolved({"index-url": flag}, environ, {"network.index-url": key})["index-url"] == expected


@pytest.mark.parametrize(
    ("flag", "variable", "key", "expected"),
    [
        (False, "1", True, False),
        (None, "0", True, False),
        (None, "", True, True),
        (None, "YES", False, True),
        (None, None, None, False),
    ],
)
def test_a_no_of_a_stronger_place_beats_a_yes_of_a_weaker(
    flag: bool | None, variable: str | None, key: bool | None, expected: bool
) -> None:
    environ = {} if variable is None else {"PERDURE_OFFLINE": variable}
    assert resolved({"offline": flag}, environ, {"network.offline": key})["offline"] is expected


@pytest.mark.parametrize("word", ["2", "y", "t", "enabled", "true false", "ja"])
def test_an_unclear_boolean_variable_is_refused_by_name(word: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_boolean(word, "PERDURE_YES")
    assert caught.value.context == {"variable": "PERDURE_YES", "value": word}


def test_relative_paths_count_from_here_and_those_of_config_from_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolved({"wheelhouse": "w"}, {}, {})["wheelhouse"] == str(tmp_path / "w")
    assert resolved({}, {"PERDURE_WHEELHOUSE": "../w"}, {})["wheelhouse"] == str(tmp_path.parent / "w")
    assert resolved({}, {}, {"network.wheelhouse": "w"})["wheelhouse"] == "/home/w"
    assert resolved({"index-url": "file:///x", "python-downloads": "l.json"}, {}, {})["index-url"] == "file:///x"
    assert resolved({"python": "python3.13"}, {}, {})["python"] == "python3.13"
    assert resolved({"python": "./python"}, {}, {})["python"] == str(tmp_path / "python")


@pytest.mark.parametrize("name", ["home", "profile", "index-url", "wheelhouse", "python"])
@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_flag_is_refused_and_not_taken_for_the_current_directory(name: str, text: str) -> None:
    """``--home "$UNSET"``."""
    with pytest.raises(UsageFault, match=f"--{name} is empty"):
        resolved({name: text}, {}, {})


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "-x", "a\nb", "é", "x" * 65])
def test_a_profile_that_could_be_another_path_is_refused(name: str) -> None:
    if not name:
        assert resolved({}, {"PERDURE_PROFILE": name}, {})["profile"] == "default"
        return
    with pytest.raises(UsageFault):
        resolved({"profile": name}, {}, {})


def test_the_network_is_made_of_its_settings() -> None:
    network = network_of(resolved({"wheelhouse": "/w", "offline": True, "proxy": "http://p"}, {}, {}))
    assert (network.wheelhouse, network.offline, network.proxy, network.index_url) == (
        Path("/w"),
        True,
        "http://p",
        None,
    )


def test_foreign_variables_are_listed_and_not_resolved() -> None:
    assert {setting.name for setting in SETTINGS if setting.scope == FOREIGN}.isdisjoint(resolved({}, {}, {}))


def test_an_index_that_is_a_path_is_a_directory_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert network_of(resolved({"index-url": "mirror dir"}, {}, {})).index_url == (tmp_path / "mirror dir").as_uri()


@pytest.mark.parametrize(("name", "value"), [("index-url", "ftp://user:secret@x/y"), ("proxy", "user:secret@host:1")])
def test_an_address_of_no_kind_that_can_be_reached_is_refused_without_repeating_it(name: str, value: str) -> None:
    with pytest.raises(UsageFault) as caught:
        network_of(resolved({name: value}, {}, {}))
    assert "secret" not in f"{caught.value.summary}{caught.value.hint}"
    assert f"--{name} " in str(caught.value.hint)
