"""The operator's list in app.yaml: nothing comes back that was taken away, and nothing else of the file changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from perdure.approvals.allowlist import Allowlist, AllowlistUnfit

pytestmark = pytest.mark.proves("approvals-allowlist")


class Made:
    """One profile's list, with what was warned of."""

    def __init__(self, folder: Path, text: str | None = None) -> None:
        self.folder = folder
        self.path = folder / "app.yaml"
        if text is not None:
            self.path.write_text(text)
        self.warnings: list[str] = []
        self.list = self.other()

    def other(self) -> Allowlist:
        """Return the list as another process sees it."""
        return Allowlist(self.path, self.folder / "state" / "lock", self.warnings.append)


def test_a_line_that_was_taken_away_is_not_brought_back_and_counts_no_more(tmp_path: Path) -> None:
    made = Made(tmp_path)
    assert made.list.add("cargo *")
    assert made.list.entries() == ("cargo *",)
    made.path.write_text("command_allowlist: []\n# nothing\n")
    assert made.list.add("npm *")
    assert made.list.entries() == made.other().entries() == ("npm *",)
    made.path.write_text("command_allowlist: []\n")
    assert made.list.entries() == ()


def test_what_the_operator_adds_survives_and_a_smaller_set_takes_nothing(tmp_path: Path) -> None:
    made = Made(tmp_path, "command_allowlist: [one]\n")
    assert made.list.entries() == ("one",)
    made.path.write_text("command_allowlist: [one, two]\n")
    made.list.add("three")
    made.list.add()
    made.list.add("one")
    assert made.other().entries() == ("one", "two", "three")


def test_of_two_processes_both_keep_their_grants(tmp_path: Path) -> None:
    made = Made(tmp_path, "# mine\napprovals: {mode: manual}\n")
    code = (
        "import sys; from pathlib import Path; from perdure.approvals.allowlist import Allowlist\n"
        "made = Allowlist(Path(sys.argv[1]), Path(sys.argv[2]), print)\n"
        "for number in range(15): assert made.add(f'{sys.argv[3]} {number}')\n"
    )
    arguments = [sys.executable, "-I", "-c", code, str(made.path), str(tmp_path / "state" / "lock")]
    running = [subprocess.Popen([*arguments, name]) for name in ("a", "b", "c")]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert set(made.list.entries()) == {f"{name} {number}" for name in "abc" for number in range(15)}
    assert made.path.read_text().startswith("# mine\n")


def test_where_it_cannot_be_written_the_grant_holds_here_and_somebody_is_told(tmp_path: Path) -> None:
    made = Made(tmp_path, "command_allowlist: [one]\n")
    (tmp_path / "state").write_text("in the way")
    assert not made.list.add("two")
    assert made.list.entries() == ("one", "two")
    assert made.other().entries() == ("one",)
    assert len(made.warnings) == 1
    (tmp_path / "state").unlink()
    assert made.list.add("three")
    assert made.other().entries() == ("one", "two", "three")


@pytest.mark.parametrize(
    "text", ["command_allowlist: \"['a *', 'b']\"\nx: 1\n", 'command_allowlist: \'["a *", "b"]\'\nx: 1\n']
)
def test_a_list_in_quotes_is_recovered_and_left_until_something_is_written(tmp_path: Path, text: str) -> None:
    made = Made(tmp_path, text)
    assert made.list.entries() == ("a *", "b")
    assert (made.path.read_text(), len(made.warnings)) == (text, 1)
    assert made.list.add("c")
    assert YAML(typ="safe").load(made.path.read_text()) == {"command_allowlist": ["a *", "b", "c"], "x": 1}


@pytest.mark.parametrize(
    "text",
    [
        "command_allowlist: 3\n",
        "command_allowlist: cargo *\n",
        "command_allowlist: {a: b}\n",
        "command_allowlist: [a, 3]\n",
        "command_allowlist: [[a]]\n",
        "command_allowlist: true\n",
        "command_allowlist: [a\n",
        "- a\n",
        "command_allowlist: '[1]'\n",
    ],
)
def test_what_is_no_list_of_texts_grants_nothing_and_is_not_overwritten(tmp_path: Path, text: str) -> None:
    made = Made(tmp_path, text)
    assert made.list.entries() == ()
    assert made.warnings
    assert not made.list.add("x")
    assert made.path.read_text() == text
    with pytest.raises(AllowlistUnfit):
        made.list.remove("x")


@pytest.mark.skipif(os.name == "nt", reason="there are none")
def test_a_pipe_is_no_list_and_is_not_waited_for(tmp_path: Path) -> None:
    made = Made(tmp_path, "")
    made.path.unlink()
    os.mkfifo(made.path)
    assert made.list.entries() == ()
    assert not made.list.add("x")
    assert "not a file" in made.warnings[0]


def test_profiles_do_not_share(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = Made(tmp_path / "a"), Made(tmp_path / "b")
    one.list.add("x")
    assert (one.list.entries(), other.list.entries()) == (("x",), ())


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", 'command_allowlist:\n- "x *"\n'),
        ("# only a comment\n", '# only a comment\ncommand_allowlist:\n- "x *"\n'),
        ("a: 1  # one", 'a: 1  # one\ncommand_allowlist:\n- "x *"\n'),
        ("{a: 1}\n", '{a: 1, command_allowlist: ["x *"]}\n'),
        ("command_allowlist:\n# why\n- b  # c\n\nz: 2\n", 'command_allowlist:\n# why\n- b  # c\n- "x *"\n\nz: 2\n'),
        ("command_allowlist:\n    - b\nz: 2\n", 'command_allowlist:\n    - b\n    - "x *"\nz: 2\n'),
        ("command_allowlist: [b, c]  # d\n", 'command_allowlist: [b, c, "x *"]  # d\n'),
        ("command_allowlist: []\n", 'command_allowlist: ["x *"]\n'),
        ("command_allowlist:\nz: 2\n", 'command_allowlist:\n- "x *"\nz: 2\n'),
        ("command_allowlist: [\n  b,\n]\n", None),
        ("---\na: 1\n...\n", None),
        ("a: |\n  text\n  more\n", None),
        ("command_allowlist:\n- >-\n  folded\n  text\nz: 2\n", None),
    ],
)
def test_the_file_is_edited_as_text_and_back(tmp_path: Path, text: str, after: str | None) -> None:
    made = Made(tmp_path, text)
    before = YAML(typ="safe").load(text) or {}
    known = before.get("command_allowlist") or []
    assert made.list.add("x *"), made.warnings
    written = made.path.read_text()
    assert after is None or written == after
    assert YAML(typ="safe").load(written) == {**before, "command_allowlist": [*known, "x *"]}
    assert made.list.remove("x *")
    assert not made.list.remove("x *")
    assert YAML(typ="safe").load(made.path.read_text()) == {**before, "command_allowlist": known}


@settings(max_examples=120, deadline=None)
@given(
    entries=st.lists(st.text(min_size=1, max_size=12).filter(lambda text: bool(text.split())), max_size=5, unique=True)
)
def test_whatever_is_granted_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, entries: list[str]) -> None:
    made = Made(tmp_path_factory.mktemp("list"), "a: [b]  # c\n")
    for entry in entries:
        made.list.add(entry)
    # What cannot be written counts here all the same, and nothing else is touched by it.
    assert set(made.list.entries()) == set(entries)
    assert made.path.read_text().startswith("a: [b]  # c\n")
