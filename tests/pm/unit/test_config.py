"""config.yaml: every fault with its place, and edits that keep what people wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.config import Key, find_key, parse_home_config, parse_profile_config, parse_typed
from perdure_pm.model.errors import ConfigChanged, ConfigInvalid, UsageFault
from perdure_pm.store.config import load_file, load_home_config, load_profile_config, plan_change, save_text
from perdure_pm.store.layout import Layout
from perdure_pm.store.yaml_text import edit, read_document


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        parse_home_config(read_document(text, "config.yaml"))
    found = caught.value.context["faults"]
    assert isinstance(found, list)
    return found


WRONG = """\
schema: 2
install:
  lazy: 'no'
  lazzy: 1
host: perdure
network:
  index-url: [a]
  offline: yes
  proxy: proxy:3128
  certificate: ""
network: 2
"""


@pytest.mark.proves("pm-config-every-fault")
def test_every_fault_of_a_file_is_told_at_once_with_its_place() -> None:
    assert faults(WRONG) == [
        "config.yaml:1:9 schema: must be 1, is the number 2; another form needs another version of PM",
        "config.yaml:3:9 install.lazy: must be true or false, is the text 'no'",
        "config.yaml:5:7 host: must be a mapping of keys to values, is the text 'perdure'",
        "config.yaml:7:14 network.index-url: must be text, is a list",
        "config.yaml:8:12 network.offline: must be true or false, is the text 'yes'",
        "config.yaml:9:10 network.proxy: must be a URL with its scheme, such as http://, is the text 'proxy:3128'",
        "config.yaml:10:16 network.certificate: must not be the empty text",
        "config.yaml:11:1 network: stands here again; the first is at 6:1",
    ]


@pytest.mark.proves("pm-config-every-fault")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n\tb: 2\n", "config.yaml:2:1: a tab cannot indent or separate here; use spaces"),
        ("a: b\n  c: d\n", "config.yaml:2:4: is not YAML: mapping values are not allowed here"),
        ("a: [\n", "config.yaml:2:1: is not YAML: expected the node content, but found '<stream end>'"),
        ("ok: 1\nx: \x01", "config.yaml:2:4: holds a character that YAML forbids"),
        ("- a\n", "config.yaml:1:1: must be a mapping of keys to values, is a list"),
        ("a: 1\n---\nb: 2\n", "config.yaml:2:1: is not YAML: but found another document"),
        (
            "install: {<<: {lazy: true}}",
            "config.yaml:1:11 install: merging mappings is not supported; write the keys out",
        ),
        ("a: &x [*x]", "config.yaml:1:4 a[0]: refers to itself"),
        ("[" * 5000, "config.yaml: is nested too deeply"),
        ("schema: !mine 1", "config.yaml:1:9 schema: has the tag !mine, which means nothing here"),
        ("schema: true", "config.yaml:1:9 schema: must be 1, is true; another form needs another version of PM"),
        ("install:\n  lazy:\n", "config.yaml:2:7 install.lazy: must be true or false, is empty"),
        ("? [a]\n: 1\n", "config.yaml:1:3: a key must be text"),
    ],
)
def test_a_fault_of_the_text_is_told_with_its_place(text: str, expected: str) -> None:
    assert faults(text) == [expected]


@pytest.mark.proves("pm-config-every-fault")
def test_aliases_that_multiply_are_refused() -> None:
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    text += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert any("has too many parts" in fault for fault in faults(text))


@pytest.mark.proves("pm-config-every-fault")
def test_a_file_that_is_not_utf_8_is_told_with_its_place(home: Path) -> None:
    layout = Layout(home)
    home.mkdir()
    layout.config.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigInvalid) as caught:
        load_home_config(layout)
    assert caught.value.summary == "config.yaml:2:4: is not UTF-8: byte 0xff"


@pytest.mark.parametrize("kind", ["directory", "fifo"])
@pytest.mark.proves("pm-config-every-fault")
@pytest.mark.platforms("linux", "darwin")
def test_what_is_no_file_is_refused_and_not_waited_for(home: Path, kind: str) -> None:
    layout = Layout(home)
    home.mkdir()
    layout.config.mkdir() if kind == "directory" else os.mkfifo(layout.config)
    with pytest.raises(ConfigInvalid) as caught:
        load_home_config(layout)
    assert caught.value.summary == "config.yaml: is not a file"


@pytest.mark.proves("pm-config-no-surprise-truth")
@pytest.mark.parametrize("word", ["no", "yes", "on", "off", "y", "n", "'false'", '"no"', "0", "1", "!!str true", "~"])
@pytest.mark.parametrize("head", ["", "%YAML 1.1\n---\n"])
def test_only_true_and_false_are_truth_values(word: str, head: str) -> None:
    (fault,) = faults(f"{head}install: {{lazy: {word}}}\n")
    assert "install.lazy: must be true or false" in fault


def test_unknown_keys_are_warnings_with_the_key_that_was_meant() -> None:
    document = read_document("instal:\n  lazy: false\nnetwork:\n  ofline: true\nmine: {x: 1}\n", "config.yaml")
    assert [str(warning) for warning in parse_home_config(document).warnings] == [
        "config.yaml:1:1 instal: unknown key, kept but without effect; did you mean install?",
        "config.yaml:4:3 network.ofline: unknown key, kept but without effect; did you mean offline?",
        "config.yaml:5:1 mine: unknown key, kept but without effect",
    ]


def test_an_empty_section_or_file_says_nothing() -> None:
    for text in ("", "# nothing\n", "---\n", "network:\n  # offline: true\n", "network: {}\nhost:\n  name:\n"):
        config = parse_home_config(read_document(text, "config.yaml"))
        assert (config.lazy, config.host_name, config.warnings) == (True, None, ())


def test_a_profile_lists_its_plugins_once_each() -> None:
    document = read_document("plugins: [perdure-facts, Perdure_Facts, 1, 'a b']\n", "profiles/default/config.yaml")
    with pytest.raises(ConfigInvalid) as caught:
        parse_profile_config(document)
    assert caught.value.context["faults"] == [
        "profiles/default/config.yaml:1:26 plugins[1]: names Perdure_Facts again, which is plugins[0]",
        "profiles/default/config.yaml:1:41 plugins[2]: must be text, is the number 1",
        (
            "profiles/default/config.yaml:1:44 plugins[3]: must be a name, or a name with versions such as "
            "NAME>=1,<2, is the text 'a b'"
        ),
    ]


WRITTEN = """\
# mine
schema: 1

# about installs
install:   # the section
  # the key
  lazy:    true   # trailing

# the network at work
network:
    index-url: 'https://x/simple'   # quoted
    # offline: true
# the end
"""

EDITS: list[tuple[str, list[str], bool | str | list[str] | None, str]] = [
    (WRITTEN, ["install", "lazy"], False, WRITTEN.replace("   true", "   false")),
    (WRITTEN, ["install", "lazy"], None, WRITTEN.replace("  lazy:    true   # trailing\n", "")),
    (WRITTEN, ["network", "index-url"], "it's", WRITTEN.replace("'https://x/simple'", "'it''s'")),
    (WRITTEN, ["network", "proxy"], "http://p", WRITTEN.replace("quoted\n", "quoted\n    proxy: http://p\n")),
    (WRITTEN, ["host", "name"], "x", WRITTEN.replace("# the end", "host:\n  name: x\n# the end")),
    ("", ["host", "name"], "x", "host:\n  name: x\n"),
    ("# only\n", ["host", "name"], "x", "# only\nhost:\n  name: x\n"),
    ("a: 1", ["host", "name"], "x", "a: 1\nhost:\n  name: x\n"),
    ("---\na: 1\n...\n", ["host", "name"], "x", "---\na: 1\nhost:\n  name: x\n...\n"),
    ("network:\n\n# b\nb: 1\n", ["network", "proxy"], "http://p", "network:\n  proxy: http://p\n\n# b\nb: 1\n"),
    ("network: {}\n", ["network", "proxy"], "http://p", "network: {proxy: http://p}\n"),
    ("{network: {a: 1}}\n", ["network", "proxy"], "http://p", "{network: {a: 1, proxy: http://p}}\n"),
    ("{a: 1, b: 2}\n", ["a"], None, "{b: 2}\n"),
    ("{a: 1, b: 2}\n", ["b"], None, "{a: 1}\n"),
    ("a:  # c\nb: 1\n", ["a"], "x", "a: x  # c\nb: 1\n"),
    ("a: |\n  no\n  way\nb: 1\n", ["a"], "no", "a: no\nb: 1\n"),
    ('a: "x" # c', ["a"], "é\n", 'a: "é\\n" # c'),
    ("a: 1\n", ["a"], "yes: #", 'a: "yes: #"\n'),
    ("a: &k 1\nb: *k\n", ["b"], "2", "a: &k 1\nb: '2'\n"),
    (
        "plugins:\n- a\n# b\n- b # bb\n# z\nq: 1\n",
        ["plugins"],
        ["a", "b", "c"],
        "plugins:\n- a\n# b\n- b # bb\n- c\n# z\nq: 1\n",
    ),
    ("plugins:\n- a\n# b\n- b # bb\n# z\nq: 1\n", ["plugins"], ["b"], "plugins:\n# b\n- b # bb\n# z\nq: 1\n"),
    ("plugins:\n- a\n# b\n- b # bb\n# z\nq: 1\n", ["plugins"], ["b", "a"], "plugins:\n# b\n- b # bb\n- a\n# z\nq: 1\n"),
    ("plugins:\n  - a\n", ["plugins"], [], "plugins:\n  []\n"),
    ("plugins: [a]\n", ["plugins"], ["b", "a"], "plugins: [b, a]\n"),
    ("\ufeffa: 1\n", ["a"], "x", "\ufeffa: x\n"),
]


@pytest.mark.proves("pm-config-edit-keeps-rest")
@pytest.mark.parametrize(("text", "place", "value", "expected"), EDITS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_edit_leaves_every_other_byte(
    text: str, place: list[str], value: bool | str | list[str] | None, expected: str, ending: str
) -> None:
    if ending == "\r\n" and "\n" not in text.removesuffix("\n") and "\n" not in text:
        return  # one line without an ending says nothing about endings
    assert edit(text.replace("\n", ending), place, value) == expected.replace("\n", ending)


@pytest.mark.proves("pm-config-edit-keeps-rest")
@given(
    name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip),
    lazy=st.booleans(),
    before=st.sampled_from([text for text, *_ in EDITS if "plugins" not in text]),
)
def test_whatever_is_set_is_read_back_and_nothing_else_changes(name: str, lazy: bool, before: str) -> None:
    once = edit(before, ["mine", "name"], name)
    twice = edit(once, ["mine", "lazy"], lazy)
    was, data = (
        read_document(before.removeprefix("\ufeff"), "").data,
        read_document(twice.removeprefix("\ufeff"), "").data,
    )
    assert isinstance(data, dict)
    assert data.pop("mine") == {"name": name, "lazy": lazy}
    assert data == (was or {})
    assert all(line in twice.splitlines() for line in before.splitlines() if line.startswith("#"))


def change(layout: Layout, name: str, value: bool | str | list[str] | None) -> str:
    key, in_profile = find_key(name)
    file = load_file(layout, layout.profile_config("default") if in_profile else layout.config)
    text = plan_change(file, key, value, in_profile=in_profile)
    save_text(LocalFilesystem(), file, text)
    return text


def test_a_change_corrects_the_fault_it_is_about_and_refuses_over_others(home: Path) -> None:
    layout = Layout(home)
    home.mkdir()
    layout.config.write_text("install:\n  lazy: 'no'\n", encoding="utf-8")
    change(layout, "install.lazy", False)
    assert layout.config.read_text(encoding="utf-8") == "install:\n  lazy: false\n"
    layout.config.write_text("install:\n  lazy: 'no'\n", encoding="utf-8")
    with pytest.raises(ConfigInvalid):
        change(layout, "network.offline", True)
    assert layout.config.read_text(encoding="utf-8") == "install:\n  lazy: 'no'\n"


@pytest.mark.proves("pm-config-edit-keeps-rest")
def test_a_linked_config_stays_a_link_and_keeps_its_mode(home: Path, tmp_path: Path) -> None:
    layout = Layout(home)
    home.mkdir()
    dotfile = tmp_path / "dotfiles" / "perdure.yaml"
    dotfile.parent.mkdir()
    dotfile.write_text("# mine\n", encoding="utf-8")
    dotfile.chmod(0o600)
    layout.config.symlink_to(dotfile)
    change(layout, "install.lazy", False)
    assert layout.config.is_symlink()
    assert dotfile.read_text(encoding="utf-8") == "# mine\ninstall:\n  lazy: false\n"
    assert dotfile.stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("pm-config-stale-refused")
def test_a_file_that_was_edited_meanwhile_is_not_overwritten(home: Path) -> None:
    layout = Layout(home)
    home.mkdir()
    file = load_file(layout, layout.config)
    layout.config.write_text("# somebody's\n", encoding="utf-8")
    with pytest.raises(ConfigChanged):
        save_text(LocalFilesystem(), file, "schema: 1\n")
    assert layout.config.read_text(encoding="utf-8") == "# somebody's\n"


def test_a_profile_has_its_own_file(home: Path) -> None:
    layout = Layout(home)
    change(layout, "plugins", ["perdure-facts"])
    assert load_profile_config(layout, "default").plugins == ("perdure-facts",)
    assert load_home_config(layout).values == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("install.lazy", "true", True),
        ("network.offline", "false", False),
        ("host.name", "perdure", "perdure"),
        ("plugins", "a, b,,", ["a", "b"]),
    ],
)
def test_typed_text_becomes_a_value_of_the_key(name: str, text: str, expected: object) -> None:
    assert parse_typed(find_key(name)[0], text) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [("install.lazy", "True"), ("install.lazy", "no"), ("host.name", "a b"), ("plugins", "a,A"), ("schema", "2")],
)
def test_typed_text_that_is_no_value_of_the_key_is_refused(name: str, text: str) -> None:
    key: Key = find_key(name)[0]
    with pytest.raises(UsageFault):
        parse_typed(key, text)


@pytest.mark.parametrize(
    ("name", "meant"), [("lazy", "install.lazy"), ("install.lasy", "install.lazy"), ("plugin", "plugins")]
)
def test_an_unknown_key_is_refused_with_the_nearest_one(name: str, meant: str) -> None:
    with pytest.raises(UsageFault) as caught:
        find_key(name)
    assert caught.value.summary == f"there is no setting {name!r}; did you mean {meant}?"
