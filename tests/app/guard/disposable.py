"""The corpus's own machine, for real and to throw away: an interpreter copied into a home, an environment made from it.

Owns: the home that is made once, running one line in a fresh layer over it, and telling what it harmed. Does not own:
the machine around the home (namespaces), or the lines. Harm is what a person would call so: the interpreter does not
start any more, something was mounted over it, or a file of a protected root was deleted, moved, changed or added; byte
code does not count.

It is a process of its own that reads one question a line and answers with a line, as JSON: what it makes its machines
with cannot be undone in a process that goes on.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from perdure.domain.effect import Act
from perdure.guard.probe import Machine
from perdure.guard.roots import Root, environment_roots
from perdure.guard.service import Guard, Place
from perdure.jail.machine import LinuxSystem
from perdure.jail.service import Jail
from tests.app.guard.namespaces import (
    BIND,
    FAILED,
    FIRST_USER,
    YOU,
    CannotBeMade,
    become_you,
    layer,
    leave,
    make_root,
    mount,
    own_mounts,
    run_as_first,
    run_program,
    start_alone,
    wait,
)

MINOR = f"python{sys.version_info[0]}.{sys.version_info[1]}"
HOME = "/home/you"
VENV = f"{HOME}/app/.venv"
BASE = f"{HOME}/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT = {"HOME": HOME, "VIRTUAL_ENV": VENV, "PATH": f"{VENV}/bin:{SYSTEM_PATH}", "TERM": "xterm"}
SECONDS = 3.0
"""How long a line may run: what harms does so at once, and some lines never end."""
_AFTERWARDS = 1.0
"""How long what it left in the background may go on."""
_LEFT_OUT = ("test", "idlelib", "lib2to3", "tkinter", "turtledemo", "site-packages", "dist-packages", "config-*")
_LEFT_OUT_FILES = ("*.opt-1.pyc", "*.opt-2.pyc", "*.a")
_DOES_NOT_START, _MOUNTED, _TOOK_TOO_LONG = 1, 2, 4
_AS_ROOT = '#!/bin/sh\nwhile :; do case $1 in -[ughpCrtT]) shift 2;; -*|*=*) shift;; *) break;; esac; done\nexec "$@"\n'
"""What stands for `sudo` and `doas` where everybody may become root: it leaves its options out."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the guard says of one line in that machine."""

    ruling: str
    floor: bool
    codes: tuple[str, ...]
    missing: tuple[str, ...]
    """The programs that it would start and that the machine has not got."""

    @property
    def held(self) -> bool:
        """Whether it does not run, whatever a person has allowed before."""
        return self.ruling == "refuse" or self.floor


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a line did."""

    harmed: bool
    what: str
    took_too_long: bool


class Disposable:
    """The machine, as a test uses it; leave it with `close`."""

    def __init__(self, folder: Path, uv: Path | None) -> None:
        """Make the home in a directory.

        Raises:
            CannotBeMade: it cannot be made here, and why.
        """
        code = f"import sys; sys.path[:0] = {sys.path!r}; from tests.app.guard.disposable import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code, str(folder), str(uv or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.no_jail = self._answer()
            """Why nothing can be jailed in it; None where it can."""
        except CannotBeMade:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge(self, lines: Sequence[tuple[str, str]]) -> list[Said]:
        """Return what the guard says of lines, each with the directory that it is for."""
        answers = self._ask({"judge": list(lines)})
        assert isinstance(answers, list)
        return [Said(each["ruling"], each["floor"], tuple(each["codes"]), tuple(each["missing"])) for each in answers]

    def run(self, text: str, cwd: str, *, jailed: bool, root: bool = True) -> Outcome:
        """Run a line in a machine of its own and return what came of it."""
        answer = self._ask({"text": text, "cwd": cwd, "jailed": jailed, "root": root})
        assert isinstance(answer, dict)
        return Outcome(answer["harmed"], answer["what"], answer["took_too_long"])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _ask(self, question: Mapping[str, object]) -> object:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"cannot": "it ended without an answer"}
        if isinstance(answer, dict) and "cannot" in answer:
            raise CannotBeMade(answer["cannot"])
        return answer


def local(text: str) -> str:
    """Return a line of the corpus, whose base is 3.12, for an interpreter of the version that there is."""
    return text.replace("python3.12", MINOR)


def main() -> None:
    """Answer questions until there are no more."""
    # An answer must not be mixed with what anything else says.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        made = _Made(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2] else None)
    except (CannotBeMade, OSError) as error:
        answer({"cannot": str(error)})
        return
    gc.freeze()  # what is kept is not looked through, and so not copied, in each process to come
    answer(made.no_jail)
    for line in sys.stdin:
        question = json.loads(line)
        answer(made.judge(question["judge"]) if "judge" in question else made.run(**question))


class _Made:
    """The home, and how a machine is made around it."""

    def __init__(self, folder: Path, uv: Path | None) -> None:
        self.etc, self.local, self.home = folder / "etc", folder / "local", folder / "home"
        self.root, self.scratch = folder / "root", folder / "scratch"
        for path in (self.etc, self.local / "bin", self.home / "you", self.root, self.scratch):
            path.mkdir(parents=True)
        start_alone()
        # In this process the home has its own name already, for all that goes by names.
        mount(str(self.home), "/home", flags=BIND)
        _copy_base()
        self._furnish(uv)
        code, said = self._in_machine(_make_home, seconds=120, layered=False)
        if code or said:
            raise CannotBeMade(f"the home was not made: {said or code}")
        paths = sorted({Path(root.path) for root in _roots()})
        self.roots = [path for path in paths if not any(other in path.parents for other in paths)]
        self.before = _look(self.roots)
        self.written: int | None = None
        """In a process of one machine: what of its home was written, where that is known."""
        self.jails: dict[bool, list[str]] = {}
        self.no_jail: str | None = None
        for root in (True, False):
            answer = json.loads(self._in_machine(partial(_front, as_root=root), seconds=60)[1])
            if isinstance(answer, str):
                self.no_jail = answer
            else:
                self.jails[root] = answer

    def judge(self, lines: Sequence[tuple[str, str]]) -> list[object]:
        """Return what the guard says of each line, in its directory."""
        # The guard starts a reader, which lies where the tests' own environment does.
        own = {Path(path) for path in (*sys.path, sys.prefix, sys.base_prefix) if os.path.isdir(path)}
        shown = sorted(path for path in own if not any(other in path.parents for other in (*own, Path("/usr"))))
        answers: list[object] = json.loads(self._in_machine(partial(_judge, lines), seconds=3600, shown=shown)[1])
        return answers

    def run(self, text: str, cwd: str, *, jailed: bool, root: bool) -> dict[str, object]:
        """Return what a line did in a machine of its own."""
        words = ["/bin/bash", "--noprofile", "--norc", "-c", text]
        if jailed:
            front = self.jails[root]
            at = front.index("--chdir") + 1
            words = [*front[:at], cwd, *front[at + 1 :], *words]
        code, what = self._in_machine(lambda _: _run(words, cwd, self.written, as_root=root), seconds=60, harm=True)
        if code >= FAILED:
            raise CannotBeMade(f"a machine failed to run {text!r}: {what}")
        if not what and code & _DOES_NOT_START:
            what = "the interpreter does not start"
        if not what and code & _MOUNTED:
            what = "something was mounted"
        return {"harmed": bool(what), "what": what, "took_too_long": bool(code & _TOOK_TOO_LONG)}

    def _furnish(self, uv: Path | None) -> None:
        """Make what is in `/etc` and `/usr/local`."""
        users = f"root:x:0:0::/root:/bin/sh\nyou:x:{YOU}:{YOU}::{HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
        (self.etc / "passwd").write_text(users)
        (self.etc / "group").write_text(f"root:x:0:\nyou:x:{YOU}:\nnogroup:x:65534:\n")
        (self.etc / "gitconfig").write_text("[user]\nname = you\nemail = you@example.org\n[safe]\ndirectory = *\n")
        (self.etc / "shadow").write_text(
            "".join(f"{name}:*:19000:0:99999:7:::\n" for name in ("root", "you", "nobody"))
        )
        for name in ("ld.so.conf.d", "alternatives", "pam.d", "security"):
            if Path("/etc", name).is_dir():
                shutil.copytree(Path("/etc", name), self.etc / name, symlinks=True)
        libraries = self.etc / "ld.so.conf"
        libraries.write_text(f"include {self.etc}/ld.so.conf.d/*.conf\n{BASE}/lib\n")
        if ldconfig := shutil.which("ldconfig", path="/usr/sbin:/sbin"):
            run_program([ldconfig, "-X", "-f", str(libraries), "-C", str(self.etc / "ld.so.cache")])
        for name in ("sudo", "doas"):
            (self.local / "bin" / name).write_text(_AS_ROOT)
        if uv is not None:
            shutil.copyfile(uv, self.local / "bin" / "uv")
        for path in (self.local / "bin").iterdir():
            path.chmod(0o755)

    def _in_machine(
        self,
        first: Callable[[Callable[[str], None]], int],
        *,
        seconds: float,
        layered: bool = True,
        shown: Sequence[Path] = (),
        harm: bool = False,
    ) -> tuple[int, str]:
        """Run a function as the first process of a new machine; return its number, and what was said there or of it."""
        ours, theirs = os.pipe()

        def say(text: str) -> None:
            with open(theirs, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)

        def make() -> int:
            own_mounts()
            make_root(self.root, etc=self.etc, local=self.local, shown=shown)
            upper = None
            if layered:
                upper = layer(self.home, self.root / "home", self.scratch)
            else:
                mount(str(self.home), self.root / "home", flags=BIND)
            if upper is not None:
                self.written = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
            code = run_as_first(self.root, lambda: first(say), seconds)
            if harm and code < FAILED:
                mount(str(self.root / "home"), "/home", flags=BIND)
                say(self._harm(upper))
            return code

        child = os.fork()
        if child == 0:
            leave(make)
        os.close(theirs)
        with open(ours, encoding="utf-8") as file:
            said = file.read()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256, said

    def _harm(self, upper: Path | None) -> str:
        """Return what is not as it was in the home that lies at `/home`; nothing where all is."""
        if upper is not None:
            # What is written below a root leaves a directory for it in the layer, and what takes it away, nothing here.
            inside = [path.relative_to("/home") for path in self.roots]
            if not any(os.path.lexists(upper / each) or not os.path.lexists("/home" / each) for each in inside):
                return ""
        after = _look(self.roots)
        for path, state in self.before.items():
            if path not in after:
                return f"{path} is gone"
            if after[path] != state:
                return f"{path} is {after[path]}, not {state}"
            inner = os.path.relpath(path, "/home")
            written = upper is None or os.path.lexists(upper / inner)
            if written and stat.S_ISREG(state.mode) and Path(path).read_bytes() != (self.home / inner).read_bytes():
                return f"{path} says something else"
        return next((f"{path} is new" for path in after if path not in self.before), "")


class _State(NamedTuple):
    mode: int
    user: int
    group: int
    size: int
    link: str


def _look(roots: Iterable[Path]) -> dict[str, _State]:
    """Return what lies in the roots, byte code left out."""
    found: dict[str, _State] = {}

    def add(path: str) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        link = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        found[path] = _State(status.st_mode, status.st_uid, status.st_gid, size, link)

    for root in roots:
        add(str(root))
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in (*folders, *names):
                if not name.endswith(".pyc"):
                    add(f"{folder}/{name}")
    return found


def _roots() -> tuple[Root, ...]:
    return environment_roots(f"{VENV}/bin/python", VENV, BASE, Machine())


def _copy_base() -> None:
    """Copy the interpreter that the tests were made from, with all of its library that a command may need."""
    prefix, base = Path(sys.base_prefix), Path(BASE)
    executable = Path(os.path.realpath(sys.executable))
    (base / "bin").mkdir(parents=True)
    shutil.copy(executable, base / "bin" / MINOR)
    (base / "bin" / "python3").symlink_to(MINOR)
    ignored = shutil.ignore_patterns(*_LEFT_OUT, *_LEFT_OUT_FILES)
    shutil.copytree(prefix / "lib" / MINOR, base / "lib" / MINOR, symlinks=True, ignore=ignored)
    if prefix != Path("/usr"):
        for library in prefix.glob("lib/libpython*.so*"):
            shutil.copy(library, base / "lib", follow_symlinks=False)
    for folder, folders, names in os.walk("/home/you"):
        for name in (".", *folders, *names):
            os.lchown(os.path.join(folder, name), FIRST_USER + YOU, FIRST_USER + YOU)


def _make_home(say: Callable[[str], None]) -> int:
    """Make the environment and the work trees, as the user whose home it is."""
    become_you()
    os.environ.clear()
    os.environ.update(HOME=HOME, PATH=SYSTEM_PATH)
    try:
        for project in ("app", "proj"):
            _program(f"{BASE}/bin/{MINOR}", "-m", "venv", "--without-pip", f"{HOME}/{project}/.venv")
        package = Path(VENV, "lib", MINOR, "site-packages", "x")
        for path in (
            package / "__pycache__" / "x.pyc",
            package.parent / "__pycache__" / "y.pyc",
            package / "__init__.py",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        for name in ("x", "y", "build/made", "src/main.py", "docs/page.md", "package.json"):
            path = Path(HOME, "app", name)
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}\n")
        Path(HOME, "app", ".gitignore").write_text(".venv\nbuild\n")
        Path(HOME, "link").symlink_to(f"{HOME}/app")
        os.chdir(f"{HOME}/app")
        if shutil.which("git"):
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
                _program("git", *words)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        say(f"{error}: {said.decode(errors='replace')}")
    return 0


def _program(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _front(say: Callable[[str], None], *, as_root: bool) -> int:
    """Say the words of the jail that the app would make in this machine, or why there is none."""
    if not as_root:
        become_you()
    jail = Jail(roots=_roots, home=f"{HOME}/.perdure", system=LinuxSystem({"PATH": SYSTEM_PATH}))
    say(json.dumps(jail.why_not() or jail.arguments("/", None)))
    return 0


def _judge(lines: Sequence[tuple[str, str]], say: Callable[[str], None]) -> int:
    roots = _roots()
    # Nobody waits here, and this machine may be busy.
    guard = Guard(lambda: roots, Machine(), homes=(HOME,), seconds=10)
    answers = []
    for text, cwd in lines:
        view = guard.look(text, shell="bash", place=Place(cwd=cwd, home=HOME, environment=ENVIRONMENT, complete=True))
        programs = {effect.operand.known for effect in view.reading.effects if effect.act is Act.RUN} - {None}
        missing = sorted(name for name in programs if name and not shutil.which(name, path=ENVIRONMENT["PATH"]))
        verdict = view.verdict
        codes = [reason.code for reason in verdict.reasons]
        answers.append({"ruling": verdict.ruling.value, "floor": verdict.floor, "codes": codes, "missing": missing})
    say(json.dumps(answers))
    return 0


def _run(words: Sequence[str], cwd: str, written: int | None, *, as_root: bool) -> int:
    """Run a line to its end, and that of all that it started; return what is to be said of it in bits."""
    mounted = _mounts()
    child = os.fork()
    if child == 0:
        leave(lambda: _start(words, cwd, ENVIRONMENT, as_root=as_root))
    code = 0
    if wait(child, SECONDS) is None:
        code |= _TOOK_TOO_LONG
    _end_others()
    if _mounts() != mounted:
        code |= _MOUNTED
    elif written is not None and not os.listdir(written):
        return code
    child = os.fork()
    if child == 0:
        python = [f"{VENV}/bin/python", "-I", "-S", "-c", "import os"]
        leave(lambda: _start(python, "/", {"PATH": SYSTEM_PATH}, as_root=False))
    if wait(child, 20) != 0:
        code |= _DOES_NOT_START
    return code


def _start(words: Sequence[str], cwd: str, environment: Mapping[str, str], *, as_root: bool) -> int:
    os.setsid()
    if not as_root:
        become_you()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.chdir(cwd)
    os.execve(words[0], list(words), dict(environment))


def _end_others() -> None:
    """Let what goes on in the background end by itself for a while, then end it."""
    until = time.monotonic() + _AFTERWARDS
    try:
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ChildProcessError, ProcessLookupError):
        return


def _mounts() -> list[str]:
    return [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
