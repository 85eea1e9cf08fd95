r"""How Windows and macOS spell paths: every spelling of one path is judged alike, and none that is of another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.effect import Hole
from perdure.domain.verdict import Ruling
from perdure.guard import values, windows_paths
from perdure.guard.layout import LayoutProbe
from perdure.guard.patterns import literal, split_text
from perdure.guard.roots import environment_roots
from perdure.guard.service import Guard, Place

HOME = "C:\\Users\\you"
VENV = f"{HOME}\\AppData\\Local\\The App\\venv"
WINDOWS = LayoutProbe(case_sensitive=False, drives=True)
MAC_VENV = "/Users/you/.app/Café"
MAC = LayoutProbe(case_sensitive=False)


def windows_guard() -> Guard:
    roots = environment_roots(f"{VENV}\\Scripts\\python.exe", VENV, "C:\\Python312", WINDOWS)
    return Guard(lambda: roots, WINDOWS, homes=("/c/Users/you",), seconds=20)


def mac_guard(venv: str = MAC_VENV) -> Guard:
    roots = environment_roots(f"{venv}/bin/python", venv, "/opt/python", MAC)
    return Guard(lambda: roots, MAC, homes=("/Users/you",), seconds=20)


PLACE = Place(cwd=HOME, home="/c/Users/you", environment={"COMPUTERNAME": "BOX"})
GUARD = windows_guard()


def deleted(path: str, shell: str) -> Ruling:
    text = {
        "cmd": f'rd /s /q "{path}"',
        "powershell": f"Remove-Item -Recurse -LiteralPath '{path}'",
        "bash": f"rm -rf '{path}'",
    }[shell]
    return GUARD.judge(text, shell=shell, place=PLACE).floor_ruling


@pytest.mark.proves("guard-windows-paths")
@pytest.mark.parametrize("shell", ["cmd", "powershell", "bash"])
@pytest.mark.parametrize(
    "path",
    [
        VENV,
        VENV.upper(),
        VENV.replace("\\", "/"),
        f"{VENV}\\",
        f"{VENV}...",
        f"{VENV} ",
        f"{VENV}::$INDEX_ALLOCATION",
        f"{VENV}\\pyvenv.cfg:stream",
        f"{VENV}\\pyvenv.cfg::$DATA",
        f"\\\\?\\{VENV}",
        f"\\\\.\\{VENV}",
        f"\\\\localhost\\c${VENV[2:]}",
        f"\\\\127.0.0.1\\C${VENV[2:]}",
        f"\\\\?\\UNC\\localhost\\C${VENV[2:]}",
        "C:AppData\\Local\\The App\\venv",
        "AppData\\Local\\The App\\venv",
        ".\\AppData\\..\\AppData\\Local\\The App\\venv",
        f"{HOME}\\AppData\\Local\\THEAPP~1\\venv",
        f"{HOME}\\AppData\\Local\\TH12AB~1\\venv",
        f"{HOME}\\AppData\\Local\\The App. \\venv",
        "C:\\Users\\you\\AppData\\Local\\The App",
    ],
)
def test_a_spelling_that_leads_to_a_root_is_refused(path: str, shell: str) -> None:
    assert deleted(path, shell) is Ruling.REFUSE


@pytest.mark.proves("guard-windows-paths")
@pytest.mark.parametrize("shell", ["cmd", "powershell"])
@pytest.mark.parametrize("path", [VENV[2:], f"\\\\BOX\\C${VENV[2:]}", f"\\??\\{VENV}"])
def test_a_spelling_of_the_shells_of_windows_is_refused(path: str, shell: str) -> None:
    assert deleted(path, shell) is Ruling.REFUSE


@pytest.mark.proves("guard-windows-paths")
@pytest.mark.parametrize("shell", ["cmd", "powershell"])
@pytest.mark.parametrize(
    "path",
    [
        f"D{VENV[1:]}",
        f"\\\\elsewhere\\share{VENV[2:]}",
        f"\\\\elsewhere\\C${VENV[2:]}",
        f"{VENV}2",
        f"{HOME}\\AppData\\Local\\OTHERA~1\\venv",
        f"{HOME}\\AppData\\Local\\TheOther",
        "D:AppData",
        "venv",
    ],
)
def test_a_spelling_of_another_place_is_free(path: str, shell: str) -> None:
    assert deleted(path, shell) is Ruling.ALLOW


@pytest.mark.proves("guard-windows-paths")
@pytest.mark.parametrize("path", ["\\\\?\\Volume{26a21bda-a627-11d7}\\x", "\\\\?\\GLOBALROOT\\Device\\X"])
def test_a_place_that_nobody_can_know_stays_open(path: str) -> None:
    placed = windows_paths.place(values.text(path), values.text("/c"), {}, drives=True, globs=False)
    assert isinstance(placed[0][0], Hole)
    assert deleted(path, "cmd") is Ruling.ASK


@st.composite
def respelled(draw: st.DrawFn) -> str:
    names = []
    for name in VENV.split("\\")[1:]:
        cased = "".join(draw(st.sampled_from((c.lower(), c.upper()))) for c in name)
        names += [cased + draw(st.sampled_from(("", ".", " ", ".. .", "")))]
        names += draw(st.sampled_from(([], ["."], ["x", ".."])))
    separator = st.sampled_from(("\\", "/", "\\\\", "\\/"))
    path = draw(st.sampled_from(("C:", "c:"))) + "".join(draw(separator) + name for name in names)
    return draw(st.sampled_from(("", "\\\\?\\", "\\\\.\\"))) + path + draw(st.sampled_from(("", "\\", "/")))


@pytest.mark.proves("guard-windows-paths")
@given(respelled(), st.sampled_from(("cmd", "powershell")))
def test_no_other_spelling_of_a_path_is_judged_milder(path: str, shell: str) -> None:
    assert deleted(path, shell) is Ruling.REFUSE, path


@pytest.mark.proves("guard-windows-paths")
@given(respelled())
def test_a_path_that_was_split_is_split_alike_again(path: str) -> None:
    once = split_text(path, drives=True)
    assert split_text("/" + "/".join(once), drives=True) == once


@pytest.mark.proves("guard-windows-paths")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("x", "x"), ("x.", "x"), ("x. .", "x"), ("x:y", "x"), ("x::$DATA", "x"), ("..", ".."), (".", "."), (".x", ".x")],
)
def test_a_name_is_what_it_leads_to(name: str, expected: str) -> None:
    assert literal(windows_paths.name(values.text(name)[0])) == expected


@pytest.mark.proves("guard-mac-paths")
@pytest.mark.parametrize(
    ("venv", "path"),
    [
        (MAC_VENV, "/Users/you/.app/Cafe\u0301"),
        (MAC_VENV, "/users/YOU/.APP/caf\u00e9"),
        (MAC_VENV, "/System/Volumes/Data/Users/you/.app/Café"),
        (MAC_VENV, "/Users/you/.app/Cafe\u0301*"),
        ("/tmp/venv", "/private/tmp/venv"),
        ("/private/var/venv", "/var/VENV"),
        ("/var/venv", "/System/Volumes/Data/private/var/venv"),
    ],
)
def test_another_name_of_a_directory_on_macos_is_refused(venv: str, path: str) -> None:
    place = Place(cwd="/work", home="/Users/you")
    assert mac_guard(venv).judge(f"rm -rf {path}", shell="bash", place=place).floor_ruling is Ruling.REFUSE


@pytest.mark.proves("guard-mac-paths")
@pytest.mark.parametrize("path", ["/private/Users/you/.app/Café", "/Users/you/.app/Cafe", "/System/Volumes/Users/you"])
def test_a_place_with_a_name_alike_is_free_on_macos(path: str) -> None:
    place = Place(cwd="/work", home="/Users/you")
    assert mac_guard().judge(f"rm -rf {path}", shell="bash", place=place).floor_ruling is Ruling.ALLOW
