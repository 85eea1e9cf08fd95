"""Random bash scripts that call `rm`, and what a real bash does with them where `rm` only takes notes.

Owns: making scripts from a seed, running them with stubs alone on ``PATH`` in a directory of their own, and telling
whether a reading covers what `rm` was given. Does not own: the readings.
"""

from __future__ import annotations

import random
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perdure.domain.effect import Act, Effect, Pattern, Reading, Spelling, Text

NAMES = ["a", "b", "c d", "d1", "d2", ".e", "f.txt", "g-h", "$i", "*", "-k", "é", "a\\b", "{x,y}", "~"]
VARIABLES = ["v", "w", "arr", "x1", "UNSET", "HOME", "PWD", "OLDPWD", "IFS", "1", "2", "@", "*", "#", "?"]
DIRECTORIES = ["sub", "sub/deep", "..", ".", "sub/../sub", "nowhere", "$PWD", "~", "-"]
_HARMLESS = [
    "bash",
    "sh",
    "env",
    "cat",
    "xargs",
    "printf",
    "nice",
    "timeout",
    "basename",
    "dirname",
    "true",
    "tee",
    "head",
    "seq",
    "mktemp",
]
# One write for one call: several may run at once.
_STUB = """#!{bash}
printf '%s\\0' "$PWD" "$@" $'\\1' >>"$RM_LOG"
"""


@dataclass(frozen=True, slots=True)
class Call:
    """What one `rm` was given, and where."""

    directory: str
    arguments: tuple[str, ...]

    @property
    def operands(self) -> list[str]:
        """The arguments that are no options."""
        if "--" in self.arguments:
            cut = self.arguments.index("--")
            head, tail = self.arguments[:cut], self.arguments[cut + 1 :]
        else:
            head, tail = self.arguments, ()
        # There is no file with the empty name.
        return [item for item in head if item and (item == "-" or not item.startswith("-"))] + [*filter(None, tail)]


class Bash:
    """A real bash in a directory of its own, with stubs and harmless programs alone on its ``PATH``."""

    def __init__(self, root: Path) -> None:
        self.bash = str(shutil.which("bash"))
        self.root = root
        self.log = root / "0.log"
        self.runs = 0
        self.path = root / "bin"
        self.path.mkdir(parents=True)
        stub = self.path / "rm"
        stub.write_text(_STUB.format(bash=self.bash))
        stub.chmod(0o755)
        for name in _HARMLESS:
            found = shutil.which("bash" if name == "sh" else name)
            if found is not None:
                (self.path / name).symlink_to(found)

    def run(self, script: str) -> list[Call]:
        """Return the calls of `rm` that a script makes."""
        # What an earlier script left in the background writes into that script's own log.
        shutil.rmtree(self.work, ignore_errors=True)
        self.runs += 1
        self.log = self.root / f"{self.runs}.log"
        work = Path(self.work)
        (work / "sub" / "deep").mkdir(parents=True)
        for name in ("a", "b", ".e", "f.txt", "d1", "d2", "sub/a", "sub/b"):
            (work / name).touch()
        self.log.write_bytes(b"")
        subprocess.run(
            [self.bash, "--norc", "--noprofile", "-c", script],
            cwd=work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        calls = []
        for record in self.log.read_bytes().split(b"\0\1\0")[:-1]:
            directory, *arguments = record.decode(errors="surrogateescape").split("\0")
            calls.append(Call(directory, tuple(arguments)))
        return calls

    @property
    def work(self) -> str:
        """Where scripts start."""
        return str(self.root / f"work{self.runs}")

    @property
    def environment(self) -> dict[str, str]:
        """The variables that scripts are started with."""
        return {
            "PATH": str(self.path),
            "HOME": self.work + "/sub",
            "RM_LOG": str(self.log),
            "LC_ALL": "C.UTF-8",
            "FUNCNEST": "40",
        }


def covered(call: Call, reading: Reading) -> bool:
    """Return whether a reading says of every operand that it may be deleted, or that it could not be understood."""
    if reading.not_analysable:
        return True
    deletions = [effect for effect in reading.effects if effect.act is Act.DELETE]
    unknown = any(effect.act is Act.RUN and effect.operand.known is None for effect in reading.effects)
    return unknown or all(
        any(_names(effect, call.directory, operand) for effect in deletions) for operand in call.operands
    )


def _names(effect: Effect, directory: str, operand: str) -> bool:
    if not any(re.fullmatch(_expression(pieces), operand, re.DOTALL) for pieces in effect.operand.spellings):
        return False
    if operand.startswith("/"):
        return True
    return any(
        re.fullmatch(_expression(pieces), f"{directory}{end}", re.DOTALL)
        for end in ("", "/")
        for place in effect.directories
        for pieces in place.spellings
    )


def _expression(pieces: Spelling) -> str:
    result = ""
    for piece in pieces:
        if isinstance(piece, Text):
            result += re.escape(piece.text)
        elif isinstance(piece, Pattern):
            # A pattern that matches nothing stands for itself; what it matches has no slash.
            result += f"(?:[^/]*|{re.escape(piece.text)})"
        else:
            result += ".*"
    return result


class Scripts:
    """Makes scripts; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  # a seed makes the same scripts again

    def script(self, depth: int = 3) -> str:
        """Return one script."""
        count = self.random.randint(1, 4 if depth == 3 else 2)
        text = self.statement(depth)
        for _ in range(count - 1):
            between = ["\n"] if text.endswith("\n") else ["; ", "\n", " && ", " || ", "; ", "\n", " & "]
            text += self.random.choice(between) + self.statement(depth)
        return text

    def statement(self, depth: int) -> str:
        """Return one command."""
        simple = [self.remove, self.remove, self.assign, self.change_directory, self.set_positionals, self.array]
        deep = [
            self.branch,
            self.loop,
            self.subshell,
            self.function,
            self.case,
            self.code,
            self.code,
            self.pipe,
            self.document,
            self.wrapped,
            self.read_loop,
            self.written,
            self.options,
            self.trap,
        ]
        return self.random.choice(simple if depth <= 0 or self.random.random() < 0.45 else [*deep, self.remove])(depth)

    def remove(self, depth: int) -> str:
        """Return a call of `rm`, with redirects here and there."""
        words = [self.random.choice(["rm", "rm", "rm", "'rm'", "r\\m", '"rm"', "command rm"])]
        words += [
            self.random.choice(["-rf", "-r", "--", "-f", "2>/dev/null", ">>out", "</dev/null"])
            for _ in range(self.random.randint(0, 2))
        ]
        words += [self.word(depth) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.15:
            words.append(self.random.choice(["2>&1", "2>&1", "&>out2", "2>&1", "\\\n  last"]))
        prefix = self.random.choice(["", "", "", "", f"v={self.word(depth)} ", "! ", "time "])
        comment = self.random.choice(["# it 's\n", "# a \\\n"]) if self.random.random() < 0.05 else ""
        return prefix + " ".join(words) + (f" {comment}" if comment else "")

    def word(self, depth: int) -> str:
        """Return one word."""
        return "".join(self.part(depth) for _ in range(self.random.randint(1, 2)))

    def part(self, depth: int) -> str:
        """Return a piece of a word."""
        name = self.random.choice(NAMES)
        variable = self.random.choice(VARIABLES)
        plain = variable if variable.isidentifier() else "v"
        choices = [
            shlex.quote(name),
            re.sub(r"[^\w./-]", "", name) or "z",
            '"' + re.sub(r'[\\"`$]', "", name) + '"',
            f"${variable}",
            f'"${variable}"',
            f"${{{plain}}}",
            f"sub/{re.sub(r'[^a-z0-9]', '', name) or 'q'}",
            "*",
            "?",
            "[a-d]*",
            ".*",
            "~",
            "~/",
            "{a,b}",
            "{1..3}",
            "x{a,,b}y",
            "$'\\x61'",
            "$'a b'",
            "\\*",
            "a#b",
            f"${{{plain}:-{shlex.quote(name)}}}",
            f"${{{plain}:+alt}}",
            f"${{{plain}-d}}",
            f"${{{plain}%b}}",
            f"${{{plain}#*/}}",
            f"${{{plain}/a/z}}",
            f"${{{plain}:0:1}}",
            f"${{{plain}^^}}",
            "${arr[0]}",
            '"${arr[@]}"',
            "${arr[*]}",
            '"$*"',
            "${!w}",
            "${#v}",
            "$((1+2))",
            f'"a"{plain}',
            "'q'\"r\"s",
        ]
        if depth > 0:
            inner = self.random.choice(["echo", "printf %s", "printf '%s\\n'"]) + f" {self.word(depth - 1)}"
            choices += [
                f"$({inner})",
                f'"$({inner})"',
                f"`echo {self.random.choice(['a', 'b c'])}`",
                "$(pwd)",
                "$(basename x/y.z .z)",
            ]
        return self.random.choice(choices)

    def assign(self, depth: int) -> str:
        """Return an assignment."""
        name = self.random.choice(["v", "w", "x1"])
        operator = self.random.choice(["=", "=", "=", "+="])
        prefix = self.random.choice(["", "", "", "export ", "declare ", "readonly " if depth == -9 else ""])
        return f"{prefix}{name}{operator}{self.word(depth)}"

    def change_directory(self, depth: int) -> str:
        """Return a change of directory."""
        target = self.random.choice([*DIRECTORIES, self.word(0)])
        return self.random.choice([f"cd {target}", f"cd {target}", f"pushd {target}", "popd", "cd"])

    def set_positionals(self, depth: int) -> str:
        """Return a change of the positional parameters."""
        return self.random.choice(
            [f"set -- {self.word(depth)} {self.word(depth)}", "shift", f"set -- {self.word(depth)}"]
        )

    def array(self, depth: int) -> str:
        """Return an array, or a change to one."""
        return self.random.choice(
            [f"arr=({self.word(depth)} {self.word(depth)})", f"arr+=({self.word(depth)})", f"arr[1]={self.word(depth)}"]
        )

    def branch(self, depth: int) -> str:
        """Return an `if`."""
        condition = self.random.choice(
            ["true", "false", '[ -n "$v" ]', "[[ $v == a* ]]", "cd sub", self.statement(depth - 1)]
        )
        other = f"; else {self.script(depth - 1)}\n" if self.random.random() < 0.5 else "\n"
        return f"if {condition}; then {self.script(depth - 1)}{other} fi"

    def loop(self, depth: int) -> str:
        """Return a loop that ends."""
        body = self.script(depth - 1)
        leave = self.random.choice(["", "", "; break", "; continue"])
        return self.random.choice(
            [
                f"for v in {self.word(depth - 1)} {self.word(depth - 1)}; do {body}\n{leave.lstrip('; ') or ':'}\ndone",
                f"for v; do {body}\ndone",
                f"n=0; while (( n++ < 2 )); do {body}\n{leave.lstrip('; ') or ':'}\ndone",
                f"for ((n=0; n<2; n++)); do {body}\ndone",
            ]
        )

    def subshell(self, depth: int) -> str:
        """Return commands in brackets."""
        body = self.script(depth - 1)
        return self.random.choice([f"( {body}\n)", f"{{ {body}\n}}", f"{{ {body}\n}} >out", f"! {{ {body}\n}}"])

    def function(self, depth: int) -> str:
        """Return a function and calls of it."""
        body = self.script(depth - 1)
        head = self.random.choice(["f()", "function f", "function f()"])
        ends = self.random.choice(["", "return", "return 1"]) or ":"
        return f"{head} {{ {body}\n{ends}\n}}; f {self.word(depth - 1)} {self.word(depth - 1)}"

    def case(self, depth: int) -> str:
        """Return a `case`."""
        end = self.random.choice([";;", ";&", ";;&"])
        return f"case {self.word(0)} in a*) {self.script(depth - 1)}\n{end} *) {self.script(depth - 1)}\n;; esac"

    def code(self, depth: int) -> str:
        """Return code in a string."""
        inner = self.script(depth - 1)
        quoted = shlex.quote(inner)
        return self.random.choice(
            [
                f"eval {quoted}",
                f"bash -c {quoted} _ {self.word(0)} {self.word(0)}",
                f"sh -c {quoted}",
                f"bash <<< {quoted}",
                f"echo {quoted} | bash",
                f"printf '%s\\n' {quoted} | sh",
                f'v={quoted}; eval "$v"',
                f'env -i PATH="$PATH" RM_LOG="$RM_LOG" bash -c {quoted}',
                f"bash -ec {quoted}",
                f"source <(printf %s {quoted})",
                f"command eval {quoted}",
                f"env bash -c {quoted}",
            ]
        )

    def pipe(self, depth: int) -> str:
        """Return a pipe."""
        return self.random.choice(
            [
                f"echo {self.word(0)} | xargs rm -f",
                f"printf '%s\\0' {self.word(0)} {self.word(0)} | xargs -0 rm",
                f"echo {self.word(0)} | xargs -I{{}} rm {{}}x",
                f"echo {self.word(0)} | {{ read v; rm $v; }}",
                f"{self.statement(depth - 1)} | {self.statement(depth - 1)}" if depth > 1 else "echo a | cat",
                f"echo {self.word(0)} | tee f1 | cat | xargs rm",
            ]
        )

    def document(self, depth: int) -> str:
        """Return a here-document into a shell."""
        inner = self.script(depth - 1)
        if "\nE\n" in inner or self.random.random() < 0.3:
            return f"cat <<E | xargs rm\n{self.word(0)}\nE\n"
        quotes = self.random.choice(["'E'", "E", '"E"', "\\E"])
        return f"bash <<{quotes}\n{inner}\nE\n"

    def wrapped(self, depth: int) -> str:
        """Return a call behind another program."""
        words = f"rm {self.word(depth - 1)} {self.word(depth - 1)}"
        return self.random.choice(
            [
                f"env {words}",
                f"env A=b {words}",
                f"nice -n 1 {words}",
                f"timeout 5 {words}",
                f"command {words}",
                f"builtin command {words}",
                f"exec {words}",
                f"env -u v {words}",
                f"nice timeout 5 env {words}",
                f"r=rm; $r {self.word(0)}",
                f"{words} &",
                f"time {words}",
                f"coproc {words}; wait",
                f"exec >out; {words}",
            ]
        )

    def read_loop(self, depth: int) -> str:
        """Return a loop over what is read."""
        body = self.random.choice(['rm "$line"', "rm $line", f"{self.statement(0)}; rm $line"])
        return self.random.choice(
            [
                f"while read -r line; do {body}; done <<< {self.word(0)}",
                f"printf '%s\\n' {self.word(0)} b | while IFS= read -r line; do {body}; done",
                f"while read line; do {body}; done < <(echo {self.word(0)})",
                f"mapfile -t arr < <(printf '%s\\n' {self.word(0)} b); rm \"${{arr[@]}}\"",
            ]
        )

    def written(self, depth: int) -> str:
        """Return a script that is written and run."""
        quoted = shlex.quote(self.script(depth - 1))
        return self.random.choice(
            [
                f"echo {quoted} > s1; bash s1",
                f"printf '%s\\n' {quoted} > s2; . ./s2",
                f"cat > s3 <<'E'\nrm {self.word(0)}\nE\nsh s3 x",
            ]
        )

    def options(self, depth: int) -> str:
        """Return a change of the shell's options, or of names."""
        return self.random.choice(
            [
                "set -f",
                "set +f",
                "shopt -s dotglob",
                "unset v",
                "IFS=:",
                "unset IFS",
                "shopt -s nullglob",
                "set -e",
                "shopt -s extglob",
            ]
        )

    def trap(self, depth: int) -> str:
        """Return a trap."""
        return f"trap {shlex.quote(self.script(depth - 1))} EXIT"
