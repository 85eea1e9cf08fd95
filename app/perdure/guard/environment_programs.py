"""Programs that make and remove Python environments, interpreters and packages.

Owns: where `uv`, `pip`, `venv`, `conda`, `pyenv`, `brew` and the system's package managers keep what they remove, as
paths. Does not own: whether such a path is protected. What they decide by what they find is conditional: a definite
path only follows from words that name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import Act, Certainty, Pattern, Spelling, Text
from perdure.guard import values, verbs
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_CELLARS = tuple((values.globbed(f"{top}/Cellar/"),) for top in ("/opt/homebrew", "/usr/local", "/home/*/.linuxbrew"))
_PYTHON_PACKAGE = late(r"(?:lib)?python(\d\.\d+)(?:-minimal|-stdlib|-full|-base|-libs|-venv|-dev)?")


def _valued(name: str) -> frozenset[str]:
    """Return the options of a program that take a value, from the table."""
    return verbs.table()[name].valued


def _below(state: State, variable: str, fallback: str) -> Value:
    """Return the directory that a variable names, or the place below home where it is without one."""
    named = state.variable(variable)
    if named is not None and values.known(named) not in {None, ""}:
        return named
    home = state.variable("HOME") or values.text(state.session.home)
    return values.joined(home, values.text(f"/{fallback}"))


def _uv_data(state: State, variable: str, folder: str) -> Value:
    named = state.variable(variable)
    if named is not None and values.known(named) not in {None, ""}:
        return named
    return values.joined(_below(state, "XDG_DATA_HOME", ".local/share"), values.text(f"/uv/{folder}"))


def _uv(machine: Machine, name: str, words: list[Value], state: State) -> None:
    outer = verbs.split(words, _valued("uv"), ordered=True)
    for place in outer.values(frozenset({"--directory", "--project"})):
        state = state.copy()
        state.directories = values.absolute(place, state.directories)
    if not outer.operands:
        return
    command, rest = values.known(outer.operands[0]), outer.operands[1:]
    arguments = verbs.split(rest, _valued("uv"), ordered=command in {"python", "tool", "pip", "run", "cache"})
    for place in arguments.values(frozenset({"--directory", "--project"})):
        state = state.copy()
        state.directories = values.absolute(place, state.directories)
    if command == "venv":
        _uv_venv(machine, arguments, state)
    elif command in {"sync", "add", "remove"}:
        _project(machine, f"uv {command}", arguments, state)
    elif command == "run":
        _project(machine, "uv run", arguments, state)
        if arguments.operands:
            child = state.copy()
            machine.call(arguments.operands, child, external=True)
            state.output = child.output
    elif command == "python" and arguments.operands:
        _uv_python(machine, arguments.operands, state)
    elif command == "tool" and arguments.operands:
        _uv_tool(machine, arguments.operands, state)
    elif command == "pip" and arguments.operands:
        _uv_pip(machine, arguments.operands, state)


def _uv_venv(machine: Machine, arguments: verbs.Arguments, state: State) -> None:
    target = (arguments.operands or [values.text(".venv")])[0]
    if not arguments.operands and values.known(state.variable("UV_PROJECT_ENVIRONMENT") or values.EMPTY):
        target = state.variable("UV_PROJECT_ENVIRONMENT") or target
    cleared = values.known(state.variable("UV_VENV_CLEAR") or values.EMPTY)
    if arguments.has(frozenset({"-c", "--clear"})) or cleared:
        machine.emit(Act.DELETE, target, state, by="uv venv --clear", recursive=True)
    elif arguments.has(frozenset({"--allow-existing"})):
        machine.emit(Act.OVERWRITE, target, state, by="uv venv --allow-existing", recursive=True)
    else:  # it refuses, or asks where there is somebody to ask
        machine.emit(Act.OVERWRITE, target, state, by="uv venv", certainty=Certainty.CONDITIONAL)


def _project(machine: Machine, by: str, arguments: verbs.Arguments, state: State) -> None:
    """Note that the environment of a project may be made anew: the project of the directory or of one above it."""
    if arguments.has(
        frozenset({"--no-project", "--no-sync", "--dry-run", "--isolated", "--no-install-project", "-h", "--help"})
    ):
        return
    named = state.variable("UV_PROJECT_ENVIRONMENT")
    folder = values.known(named) if named is not None else None
    places: list[Value] = [values.text(folder)] if folder else _upward(state, ".venv")
    active = state.variable("VIRTUAL_ENV")
    if arguments.has(frozenset({"--active"})) and active is not None:
        places.append(active)
    for place in places:
        machine.emit(Act.DELETE, place, state, by=by, recursive=True, certainty=Certainty.CONDITIONAL)


def _upward(state: State, folder: str) -> list[Value]:
    """Return a folder in the directory and in all above it."""
    places: list[Value] = []
    for directory in values.texts(state.directories) or []:
        parts = directory.rstrip("/").split("/")
        places += [values.text("/".join([*parts[:length], folder])) for length in range(len(parts), 0, -1)]
    return places or [values.text(folder)]


def _uv_python(machine: Machine, words: list[Value], state: State) -> None:
    command = values.known(words[0])
    arguments = verbs.split(words[1:], frozenset({"-i", "--install-dir", "--mirror", "--pypy-mirror"}))
    named = arguments.values(frozenset({"-i", "--install-dir"}))
    folder = named[0] if named else _uv_data(state, "UV_PYTHON_INSTALL_DIR", "python")
    if command == "uninstall":
        if arguments.has(frozenset({"--all"})):
            machine.emit(Act.DELETE, folder, state, by="uv python uninstall --all", recursive=True)
        for version in arguments.operands:
            place = values.joined(folder, values.text("/"), _managed(version))
            machine.emit(Act.DELETE, place, state, by="uv python uninstall", recursive=True)
    elif command in {"install", "upgrade"} and arguments.has(frozenset({"-r", "--reinstall", "-f", "--force"})):
        for version in arguments.operands or [((Pattern("*"),),)]:
            place = values.joined(folder, values.text("/"), _managed(version))
            machine.emit(Act.DELETE, place, state, by=f"uv python {command} --reinstall", recursive=True)


def _managed(version: Value) -> Value:
    """Return the names of the managed interpreters that a request means."""
    found: list[Spelling] = []
    for pieces in version:
        text = values.spelled(pieces)
        match = re.fullmatch(
            r"(?:(cpython|cp|pypy|pp|graalpy|gp|python)?[-@=]*)?v?(\d+(?:\.\d+)*)?(?:[-+].*)?t?", text or "?"
        )
        if text is None or match is None:
            found += [pieces, (Pattern("*"),)] if text is None else [(Text(text), Pattern("*"))]
            continue
        name = {"cp": "cpython", "pp": "pypy", "gp": "graalpy", "python": None}.get(match[1] or "", match[1])
        start: Spelling = (Text(f"{name}-"),) if name else (Pattern("*"), Text("-"))
        number = match[2] or ""
        if re.fullmatch(r"3\d+", number):  # 312 is 3.12
            number = f"3.{number[1:]}"
        if not number:
            found.append((*start, Pattern("*")))
        else:
            found += [(*start, Text(f"{number}{edge}"), Pattern("*")) for edge in (".", "-", "+", "t", "a", "b", "rc")]
    return tuple(values.merged(item) for item in found)


def _uv_tool(machine: Machine, words: list[Value], state: State) -> None:
    command = values.known(words[0])
    arguments = verbs.split(words[1:], _valued("uv"), ordered=command == "run")
    folder = _uv_data(state, "UV_TOOL_DIR", "tools")
    if command in {"uninstall", "upgrade"}:
        certainty = Certainty.DEFINITE if command == "uninstall" else Certainty.CONDITIONAL
        if arguments.has(frozenset({"--all"})) or (command == "uninstall" and not arguments.operands):
            machine.emit(Act.DELETE, folder, state, by=f"uv tool {command}", recursive=True, certainty=certainty)
        for tool in arguments.operands:
            place = values.joined(folder, values.text("/"), tool)
            machine.emit(Act.DELETE, place, state, by=f"uv tool {command}", recursive=True, certainty=certainty)
    elif command == "install":
        forced = arguments.has(frozenset({"--force", "--reinstall"}))
        for tool in arguments.operands:
            text = values.known(tool)
            bare = values.text(re.split(r"[\[<>=!~@; ]", text)[0]) if text is not None else tool
            place = values.joined(folder, values.text("/"), bare)
            certainty = Certainty.DEFINITE if forced else Certainty.CONDITIONAL
            machine.emit(Act.DELETE, place, state, by="uv tool install", recursive=True, certainty=certainty)


def _uv_pip(machine: Machine, words: list[Value], state: State) -> None:
    command = values.known(words[0])
    if command not in {"install", "uninstall", "sync"}:
        return
    arguments = verbs.split(words[1:], _valued("uv"))
    if arguments.has(frozenset({"--dry-run"})):
        return
    by = f"uv pip {command}"
    into = [*arguments.values(frozenset({"--target", "--prefix"}))]
    python = arguments.values(frozenset({"-p", "--python"}))
    if into:
        for place in into:
            machine.emit(Act.CHANGE, place, state, by=by, recursive=True)
    elif python:
        for given in python:
            machine.emit(Act.CHANGE, given, state, by=by, recursive=True)
            environment(machine, given, state, by=by)
    elif arguments.has(frozenset({"--system"})):
        _on_path(machine, state, by)
    else:
        active = state.variable("VIRTUAL_ENV")
        places = [active] if active is not None and values.known(active) else _upward(state, ".venv")
        for place in places:
            machine.emit(Act.CHANGE, place, state, by=by, recursive=True, certainty=Certainty.CONDITIONAL)


def environment(machine: Machine, program: Value, state: State, *, by: str) -> None:
    """Note that the environment of a program, or the one at a path, gets other content."""
    text = values.known(program)
    if text is None or "/" not in text:
        return
    machine.emit(Act.CHANGE, program, state, by=by, recursive=True)
    parts = text.rstrip("/").split("/")
    if parts[-2:-1] == ["bin"] or parts[-2:-1] == ["Scripts"]:
        machine.emit(Act.CHANGE, values.text("/".join(parts[:-2]) or "/"), state, by=by, recursive=True)


def _on_path(machine: Machine, state: State, by: str) -> None:
    """Note that an environment may be changed whose programs are found first."""
    active = state.variable("VIRTUAL_ENV")
    if active is not None and values.known(active):
        machine.emit(Act.CHANGE, active, state, by=by, recursive=True, certainty=Certainty.CONDITIONAL)
    path = values.known(state.variable("PATH") or values.EMPTY) or ""
    for folder in path.split(":")[:16]:
        if folder.endswith("/bin"):
            place = values.text(folder.removesuffix("/bin") + "/lib")
            machine.emit(Act.CHANGE, place, state, by=by, recursive=True, certainty=Certainty.CONDITIONAL)


_PIP_WRITES = frozenset({"--log", "--log-file", "--report"})
_PIP_FILLS = frozenset({"-d", "--dest", "-w", "--wheel-dir"})


def _pip(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`pip` by name, by path, or as a module."""
    outer = verbs.split(words, _valued("pip"), ordered=True)
    command = values.known(outer.operands[0]) if outer.operands else None
    arguments = verbs.split(outer.operands[1:], _valued("pip"))
    by = f"pip {command}"
    for written in (*outer.values(_PIP_WRITES), *arguments.values(_PIP_WRITES)):
        machine.emit(Act.OVERWRITE, written, state, by=by, through_link=True)
    for place in arguments.values(_PIP_FILLS) if command in {"download", "wheel"} else ():
        machine.emit(Act.CHANGE, place, state, by=by, recursive=True)
    if command not in {"install", "uninstall"}:
        return
    into = arguments.values(frozenset({"-t", "--target", "--prefix", "--root"}))
    for place in into:
        machine.emit(Act.CHANGE, place, state, by=by, recursive=True)
    if into or arguments.has(frozenset({"--dry-run"})):
        return
    python = [*outer.values(frozenset({"--python"})), *arguments.values(frozenset({"--python"}))]
    for given in python:
        machine.emit(Act.CHANGE, given, state, by=by, recursive=True)
    if python or "/" in name:
        environment(machine, python[0] if python else values.text(name), state, by=by)
    else:
        _on_path(machine, state, by)


def module(machine: Machine, python: str, name: str, words: list[Value], state: State) -> None:
    """`python -m NAME`."""
    if name == "pip":
        _pip(machine, python, words, state)
    elif name in {"venv", "virtualenv"}:
        _venv(machine, name, words, state)
    elif (verb := verbs.table().get(f"-m:{name}")) is not None:
        verbs.apply(verb, verbs.split(words, verb.valued), machine, state, by=f"python -m {name}")
    elif name == "ensurepip" and "/" in python:
        environment(machine, values.text(python), state, by="python -m ensurepip")


def _venv(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(
        words, frozenset(["--prompt", "-p", "--python", "--app-data", "--creator", "--seeder", "--activators"])
    )
    for target in arguments.operands:
        if arguments.has(frozenset({"--clear"})):
            machine.emit(Act.DELETE, target, state, by=f"{name} --clear", recursive=True)
        else:
            machine.emit(Act.OVERWRITE, target, state, by=name, recursive=True)


def _conda(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset(["-n", "--name", "-p", "--prefix", "-c", "--channel", "-f", "--file"]))
    known = [values.known(word) for word in arguments.operands]
    removes = known[:2] == ["env", "remove"] or (
        known[:1] in (["remove"], ["uninstall"]) and arguments.has(frozenset({"--all"}))
    )
    places = arguments.values(frozenset({"-p", "--prefix"}))
    for chosen in arguments.values(frozenset({"-n", "--name"})):
        home = state.variable("HOME") or values.text(state.session.home)
        for folder in (
            "miniconda3",
            "anaconda3",
            "miniforge3",
            "mambaforge",
            ".conda",
            "micromamba",
            ".local/share/mamba",
        ):
            places.append(values.joined(home, values.text(f"/{folder}/envs/"), chosen))
        root = state.variable("CONDA_PREFIX")
        if root is not None and values.known(root):
            places += [
                values.joined(root, values.text("/envs/"), chosen),
                values.joined(root, values.text("/../"), chosen),
            ]
        places += [values.joined(values.text(f"{top}/envs/"), chosen) for top in ("/opt/conda", "/opt/miniconda3")]
    if removes:
        for place in places:
            machine.emit(Act.DELETE, place, state, by=f"{name} env remove", recursive=True)
    elif known[:1] and known[0] in {"install", "update", "upgrade", "remove", "uninstall"}:
        active = state.variable("CONDA_PREFIX")
        for place in places or ([active] if active is not None and values.known(active) else []):
            machine.emit(
                Act.CHANGE, place, state, by=f"{name} {known[0]}", recursive=True, certainty=Certainty.CONDITIONAL
            )


def _pyenv(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset())
    root = {
        "pyenv": ("PYENV_ROOT", ".pyenv", "/versions/"),
        "asdf": ("ASDF_DATA_DIR", ".asdf", "/installs/python/"),
    }.get(name.rpartition("/")[2], ("MISE_DATA_DIR", ".local/share/mise", "/installs/python/"))
    known = [values.known(word) for word in arguments.operands]
    versions = arguments.operands[1:] if known[:1] == ["uninstall"] else []
    if name.rpartition("/")[2] == "asdf":
        versions = versions[1:] if known[1:2] == ["python"] else []
    for version in versions:
        text = values.known(version)
        if text is not None and "@" in text:
            version = values.text(text.partition("@")[2])  # noqa: PLW2901  # mise names tool@version
        place = values.joined(_below(state, root[0], root[1]), values.text(root[2]), version)
        machine.emit(Act.DELETE, place, state, by=f"{name} uninstall", recursive=True)
    if known[:1] == ["virtualenv-delete"]:
        for version in arguments.operands[1:]:
            place = values.joined(_below(state, root[0], root[1]), values.text(root[2]), version)
            machine.emit(Act.DELETE, place, state, by="pyenv virtualenv-delete", recursive=True)
    if known[:1] == ["exec"]:
        machine.call(arguments.operands[1:], state.copy(), external=True)


def _brew(machine: Machine, name: str, words: list[Value], state: State) -> None:
    arguments = verbs.split(words, frozenset())
    command = values.known(arguments.operands[0]) if arguments.operands else None
    formulas = arguments.operands[1:]
    if command in {"uninstall", "remove", "rm", "unlink"}:
        certainty = Certainty.DEFINITE
    elif command in {"upgrade", "reinstall", "cleanup", "autoremove"}:
        certainty = Certainty.CONDITIONAL
        formulas = formulas or [((Pattern("*"),),)]
    else:
        return
    for formula in formulas:
        for cellar in _CELLARS:
            place = values.joined(cellar, formula)
            machine.emit(Act.DELETE, place, state, by=f"brew {command}", recursive=True, certainty=certainty)


def _system_packages(machine: Machine, name: str, words: list[Value], state: State) -> None:
    """`apt` and the like: a package of the interpreter by its name."""
    removing = {"remove", "purge", "autoremove", "erase", "del", "rm", "autopurge"}
    short = name.rpartition("/")[2]
    texts = [text for word in words if (text := values.known(word)) is not None]
    flags = {
        "dpkg": {"-r", "-P", "--remove", "--purge"},
        "pacman": {"-R", "-Rs", "-Rns", "-Rn", "-Rdd", "-Rc"},
        "rpm": {"-e"},
    }
    if not (set(texts) & (flags.get(short) or removing)):
        return
    for text in texts:
        match = _PYTHON_PACKAGE.fullmatch(text)
        if match is not None:
            for place in (f"/usr/bin/python{match[1]}", f"/usr/lib/python{match[1]}"):
                machine.emit(Act.DELETE, values.text(place), state, by=f"{short} remove {text}", recursive=True)
        elif text in {"python3", "python3-minimal", "libpython3-stdlib", "python", "autoremove"}:
            place_value: Value = ((Text("/usr/bin/python3"), Pattern("*")),)
            machine.emit(
                Act.DELETE,
                place_value,
                state,
                by=f"{short} remove {text}",
                recursive=True,
                certainty=Certainty.CONDITIONAL,
            )


PROGRAMS: dict[str, Callable[[Machine, str, list[Value], State], None]] = {
    **dict.fromkeys(("pip", "pip3", *(f"pip3.{minor}" for minor in range(8, 20))), _pip),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _conda),
    **dict.fromkeys(("pyenv", "asdf", "mise"), _pyenv),
    **dict.fromkeys(
        ("apt", "apt-get", "aptitude", "dpkg", "dnf", "yum", "zypper", "pacman", "apk", "rpm"), _system_packages
    ),
    "brew": _brew,
    "uv": _uv,
    "virtualenv": _venv,
}
