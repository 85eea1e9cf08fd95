"""What is refused, asked and let through, from effects made by hand: acts, overlaps, links, globs, the unknown."""

from __future__ import annotations

import pytest

from perdure.domain.effect import Act, Effect, Hole, NotAnalysable, Pattern, Reading, Text
from perdure.domain.verdict import Ruling
from perdure.guard.judge import judge
from perdure.guard.roots import Root
from tests.app.guard.layouts import (
    BASE,
    HOLE,
    HOME,
    SPAN,
    STAR,
    VENV,
    effect,
    protected,
    reading,
    run,
    word,
)


def floor(made: Effect, **links: str) -> Ruling:
    return judge(
        reading(made), protected({f"/{name.replace('__', '/')}": to for name, to in links.items()})
    ).floor_ruling


@pytest.mark.proves("guard-own-feet", "guard-compare")
@pytest.mark.parametrize(
    "made",
    [
        effect(Act.DELETE, ".venv", recursive=True),
        effect(Act.DELETE, "./.venv/", recursive=True),
        effect(Act.DELETE, "//home//you/app/../app/.venv", recursive=True, cwd="/tmp"),
        effect(Act.DELETE, f"{HOME}/.local", recursive=True),
        effect(Act.DELETE, BASE, recursive=True),
        effect(Act.DELETE, ".", recursive=True),
        effect(Act.DELETE, "/", recursive=True),
        effect(Act.DELETE, f"{VENV}/bin/python3"),
        effect(Act.DELETE, ".venv"),  # rmdir: refused although it harms nothing that is not empty
        effect(Act.DELETE, HOME, "/app/.ven", Pattern("?"), recursive=True),
        effect(Act.DELETE, HOME, "/app/.", Pattern("[a-w]"), STAR, recursive=True),
        effect(Act.DELETE, ".", Pattern("[!.]"), STAR, recursive=True),
        effect(Act.DELETE, STAR, recursive=True, cwd=HOME),
        effect(Act.DELETE, ".venv/", STAR, recursive=True),
        effect(Act.DELETE, "/home/", Pattern("**"), "/.venv", recursive=True),
        effect(Act.DELETE, f"{VENV}/", HOLE),  # whatever it is, it lies in the environment
        effect(Act.DELETE, "link/.venv", recursive=True, cwd=HOME),
        effect(Act.DELETE, "link/", recursive=True, cwd=HOME),
        effect(Act.DELETE, "l", STAR, "/.venv", recursive=True, cwd=HOME),
        effect(Act.MOVE, HOME, cwd="/tmp", by="mv"),
        effect(Act.MOVE, ".venv", by="mv"),
        effect(Act.OVERWRITE, ".venv/bin/python", by=">"),
        effect(Act.OVERWRITE, "link/.venv/pyvenv.cfg", cwd=HOME, through_link=True),
        effect(Act.CHANGE, ".venv/pyvenv.cfg", by="sed -i"),
        effect(Act.EMPTY, ".venv/bin/python3.12", by="shred -u"),
        effect(Act.PERMIT, HOME, recursive=True, by="chmod"),
        effect(Act.MOUNT, f"{HOME}/app", by="mount"),
        effect(Act.DELETE, ".", recursive=True, names=[word(".v", STAR)], by="find"),
        effect(Act.DELETE, ".", recursive=True, names=[word("pyvenv.cfg")], by="find"),
        effect(Act.DELETE, ".venv", recursive=True, names=[word("x")], by="find"),
    ],
)
def test_what_harms_the_runtime_is_refused(made: Effect) -> None:
    verdict = judge(reading(made), protected())
    assert (verdict.ruling, verdict.floor) == (Ruling.REFUSE, True)
    assert verdict.meetings
    assert {reason.code for reason in verdict.reasons} & {"own-feet"}


@pytest.mark.proves("guard-others-free", "guard-compare")
@pytest.mark.parametrize(
    "made",
    [
        effect(Act.DELETE, ".venv", recursive=True, cwd=f"{HOME}/proj"),
        effect(Act.DELETE, ".venv.bak", recursive=True),
        effect(Act.DELETE, ".ven", recursive=True),
        effect(Act.DELETE, STAR, recursive=True),  # a glob does not match what is hidden
        effect(Act.DELETE, "build", recursive=True),
        effect(Act.DELETE, f"{HOME}/link"),
        effect(Act.MOVE, f"{HOME}/link", by="mv"),
        effect(Act.DELETE, f"{HOME}/app"),
        effect(Act.DELETE, f"{VENV}/lib/python3.12/site-packages/__pycache__", recursive=True),
        effect(Act.DELETE, f"{VENV}/lib/", STAR, "/site-packages/x/y.pyc"),
        effect(Act.DELETE, ".", recursive=True, names=[word(STAR, ".pyc")], by="find"),
        effect(Act.DELETE, ".", recursive=True, names=[word("__pycache__")], by="find"),
        effect(Act.DELETE, "/tmp", recursive=True, by="find"),
        effect(Act.READ, ".venv/pyvenv.cfg", by="cat"),
        effect(Act.OVERWRITE, f"{HOME}/app/out.txt", by=">"),
        effect(Act.PERMIT, f"{HOME}/app", by="chmod"),
        effect(Act.DELETE, f"{BASE}x", recursive=True),
        effect(Act.DELETE, "/tmp/build-", HOLE, recursive=True),
        effect(Act.DELETE, HOLE),  # one file, of which nothing is known
        effect(Act.DELETE, HOLE, "/build", recursive=True),
        effect(Act.OVERWRITE, HOLE, "/notes.txt"),
        effect(Act.DELETE, "old-", HOLE, ".log"),
        run(f"{VENV}/bin/python", "-m", "pytest"),
    ],
)
def test_the_floor_has_nothing_against_what_is_the_users(made: Effect) -> None:
    assert floor(made) is Ruling.ALLOW


@pytest.mark.proves("guard-floor-asks")
@pytest.mark.parametrize(
    ("made", "code"),
    [
        (effect(Act.DELETE, HOLE, recursive=True), "unknown-operand"),
        (effect(Act.DELETE, HOLE, "/.venv", recursive=True), "own-feet-perhaps"),
        (effect(Act.DELETE, HOLE, "/", STAR, recursive=True), "own-feet-perhaps"),
        (effect(Act.DELETE, ".venv", recursive=True, cwd=word(Hole("$D"))), "own-feet-perhaps"),
        (effect(Act.DELETE, f"{HOME}/app/", HOLE, recursive=True), "own-feet-perhaps"),
        (effect(Act.DELETE, HOLE, "/pyvenv.cfg"), "own-feet-perhaps"),
        (effect(Act.OVERWRITE, HOLE, "/bin/python"), "own-feet-perhaps"),
        (effect(Act.MOVE, HOLE, "/app"), "own-feet-perhaps"),
    ],
)
def test_what_may_meet_a_root_is_put_to_a_person(made: Effect, code: str) -> None:
    verdict = judge(reading(made), protected())
    assert (verdict.ruling, verdict.floor) == (Ruling.ASK, True)
    assert code in {reason.code for reason in verdict.reasons}


@pytest.mark.proves("guard-floor-asks")
def test_an_unknown_program_that_is_given_a_root_is_asked_about() -> None:
    made = effect(Act.RUN, Hole("$CMD"), arguments=[word("-rf"), word(".venv")], by="$CMD")
    verdict = judge(reading(made), protected())
    assert (verdict.ruling, verdict.floor) == (Ruling.ASK, True)
    assert verdict.reasons[0].text == (
        f"what $CMD is cannot be told, and it is given {VENV} (the environment of this process)"
    )
    harmless = effect(Act.RUN, Hole("$CMD"), arguments=[word("-rf"), word("build")], by="$CMD")
    assert judge(reading(harmless), protected()).floor_ruling is Ruling.ALLOW


@pytest.mark.proves("guard-floor-asks")
def test_what_no_reader_understands_is_asked_about_also_beside_what_is_harmless() -> None:
    place = NotAnalysable("nobody understands this", SPAN)
    verdict = judge(Reading(reader="none", effects=(run("ls"),), not_analysable=(place,)), protected())
    assert (verdict.ruling, verdict.floor) == (Ruling.ASK, True)
    assert [reason.text for reason in verdict.reasons] == ["nobody understands this"]
    refused = judge(
        Reading(reader="none", effects=(effect(Act.DELETE, VENV, recursive=True),), not_analysable=(place,)),
        protected(),
    )
    assert refused.ruling is Ruling.REFUSE


@pytest.mark.proves("guard-compare")
def test_another_spelling_counts_where_names_ignore_case_and_where_drives_have_letters() -> None:
    from perdure.guard.layout import LayoutProbe
    from perdure.guard.paths import Protected
    from perdure.guard.roots import environment_roots

    venv, base = r"C:\Users\you\AppData\Local\app\venv", r"C:\Python312"
    probe = LayoutProbe(case_sensitive=False, drives=True)
    known = Protected(environment_roots(venv + r"\Scripts\python.exe", venv, base, probe), probe)
    for path in ("/c/USERS/YOU/AppData/Local/app/venv", "/mnt/c/users/you/AppData", r"C:\USERS\you\appdata\local"):
        made = effect(Act.DELETE, path, recursive=True, cwd=r"C:\Users\you")
        assert judge(reading(made), known).ruling is Ruling.REFUSE, path
    made = effect(Act.DELETE, "AppData", recursive=True, cwd=r"C:\Users\you")
    assert judge(reading(made), known).ruling is Ruling.REFUSE
    made = effect(Act.DELETE, "/d/Users/you/AppData", recursive=True, cwd=r"C:\Users\you")
    assert judge(reading(made), known).floor_ruling is Ruling.ALLOW


@pytest.mark.proves("guard-own-policy")
def test_reading_everything_above_the_state_is_asked_about_but_where_the_state_is_not_there() -> None:
    state = Root(path=f"{HOME}/.local/share/perdure/state", why="the app's own state", secret=True)
    known = protected(extra=[state])
    above = reading(effect(Act.READ, f"{HOME}/.local", recursive=True))
    verdict = judge(above, known)
    assert (verdict.floor_ruling, verdict.reasons[0].code) == (Ruling.ASK, "reads-own-state")
    assert judge(above, known, hides_state=lambda: True).floor_ruling is Ruling.ALLOW
    # What another process does for it is in no jail of this one.
    mounted = reading(effect(Act.READ, f"{HOME}/.local", recursive=True, by="docker -v"))
    assert judge(mounted, known, hides_state=lambda: True).floor_ruling is Ruling.ASK
    # Nothing is asked of the machine where nothing depends on it.
    assert judge(reading(effect(Act.READ, "/srv", recursive=True)), known, hides_state=never).ruling is Ruling.ALLOW


def never() -> bool:
    raise AssertionError("nobody needed to know")


@pytest.mark.proves("guard-own-policy")
def test_a_run_neither_reads_nor_writes_what_decides_about_it() -> None:
    state = Root(path=f"{HOME}/.local/share/perdure/state", why="the app's own state", secret=True)
    known = protected(extra=[state])
    for act in (Act.READ, Act.CHANGE, Act.DELETE):
        assert judge(reading(effect(act, f"{state.path}/approvals.db")), known).ruling is Ruling.REFUSE
    own = reading(effect(Act.READ, f"{HOME}/.local/share/perdure", recursive=True))
    assert judge(own, known).ruling is judge(own, known, hides_state=lambda: True).ruling is Ruling.REFUSE
    assert judge(reading(effect(Act.READ, f"{HOME}/.local/share/perdure")), known).floor_ruling is Ruling.ALLOW
    for words in (
        ("approvals", "approve", "x"),
        ("allow", "ls"),
        ("config", "set", "a", "b"),
        ("pm", "uninstall", "--yes"),
    ):
        verdict = judge(reading(run("perdure", *words)), known)
        assert verdict.reasons[0].code == "own-policy", words
    assert judge(reading(run("perdure-pm", "uninstall")), known).ruling is Ruling.REFUSE
    assert judge(reading(run("perdure", "doctor")), known).ruling is Ruling.ALLOW
    assert judge(reading(effect(Act.CHANGE, f"{HOME}/.ssh/authorized_keys")), known).ruling is Ruling.REFUSE
    assert judge(reading(effect(Act.OVERWRITE, "/etc/sudoers.d/me")), known).ruling is Ruling.REFUSE


def test_a_quoted_glob_character_is_a_character() -> None:
    assert floor(effect(Act.DELETE, Text(".ven?"), recursive=True)) is Ruling.ALLOW
