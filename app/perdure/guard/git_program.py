"""`git`: what it runs for others, and what it takes away.

Owns: aliases and settings on the command line and in a repository, ``stash``, ``submodule foreach``, ``bisect run``,
``rebase -x``. Does not own: subcommands that the table describes (clean, rm, worktree).
"""

from __future__ import annotations

from perdure.domain.effect import Act, Certainty, Hole, Text
from perdure.guard import git_settings, values, verbs, wrappers
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_GIT_CODE = (
    "pager",
    "editor",
    "sshcommand",
    "external",
    "askpass",
    "fsmonitor",
    "helper",
    ".process",
    ".clean",
    ".smudge",
    "hook",
    ".program",
)
"""How settings end whose value git runs."""
_CONFIG_VALUED = frozenset({"-f", "--file", "--blob", "--type", "--default", "--comment", "--value"})


def run(machine: Machine, _name: str, words: list[Value], state: State) -> None:
    """Note what git does."""
    verb = verbs.table()["git"]
    wrappers.walk(machine, verb, "git", words, state)
    arguments = verbs.split(words, verb.valued, ordered=True)
    for place in arguments.values(verb.directory):
        state = wrappers.elsewhere(state, place)
    operands = arguments.operands
    subcommand = values.known(operands[0]) if operands else None
    for setting in arguments.values(frozenset({"-c"})):
        _setting(machine, values.known(setting) or "", operands, state)
    _configured(machine, state)
    if subcommand == "stash":
        _stash(machine, operands[1:], state)
    else:
        _runs(machine, subcommand, operands[1:], state)


def _configured(machine: Machine, state: State) -> None:
    """Note what the configuration of the repository makes git run, as if the command line said so."""
    directories = values.texts(state.directories)
    if directories is None or not _as_before(machine, directories):
        # Another repository than those that can be looked at now, or one that the text makes.
        setting: Value = ((Text("core.hookspath="), Hole("a repository")),)
        machine.emit(Act.RUN, values.text("git"), state, by="git", arguments=(values.text("-c"), setting))
        return
    found = {
        setting for directory in directories for setting in git_settings.programs(directory, machine.session.probe)
    }
    for key, value in sorted(found):
        machine.emit(
            Act.RUN, values.text("git"), state, by="git", arguments=(values.text("-c"), values.text(f"{key}={value}"))
        )
        if value and not key.endswith(("path", "process")):
            with machine.under(Certainty.CONDITIONAL):
                machine.own_shell(values.text(value), state, f"the repository's {key}")


def _as_before(machine: Machine, directories: list[str]) -> bool:
    """Return whether the repositories in these directories are still those that the disk has now."""
    if any(machine.session.probe.is_directory(directory) is False for directory in directories):
        return False
    return not any(
        effect.act in {Act.OVERWRITE, Act.CHANGE, Act.MAKE}
        and (effect.recursive or any(git_settings.decides(spelling) for spelling in effect.operand.spellings))
        for effect in machine.effects
    )


def _setting(machine: Machine, text: str, operands: list[Value], state: State) -> None:
    key, _, value = text.partition("=")
    alias = key.startswith("alias.") and operands and key[6:] == values.known(operands[0])
    if alias and value.startswith("!"):
        code = values.joined(values.text(value[1:] + " "), wrappers.code_of(operands[1:]))
        machine.own_shell(code, state, "git alias")
    elif key.lower().endswith(_GIT_CODE) and value:
        with machine.under(Certainty.CONDITIONAL):
            machine.own_shell(values.text(value), state, f"git -c {key}")


def _stash(machine: Machine, rest: list[Value], state: State) -> None:
    known = {values.known(word) for word in rest}
    if known & {"pop", "apply", "list", "show", "drop", "branch", "clear"}:
        return
    here = values.text(".")
    if known & {"--all", "-a"}:
        machine.emit(Act.DELETE, here, state, by="git stash --all", recursive=True, only_below=True)
    elif known & {"-u", "--include-untracked"}:
        machine.emit(
            Act.DELETE,
            here,
            state,
            by="git stash -u",
            recursive=True,
            only_below=True,
            spares_ignored=True,
            certainty=Certainty.CONDITIONAL,
        )


def _settings(rest: list[Value]) -> list[str]:
    """Return the code for a shell among the values that `git config` sets."""
    operands = [values.known(word) for word in verbs.split(rest, _CONFIG_VALUED).operands]
    if operands[:1] == ["set"]:
        del operands[0]
    if len(operands) < 2 or not (value := operands[1]):
        return []
    # Behind the value there may be a pattern, which picks the setting whose value is another one.
    if value.startswith("!"):
        return [value[1:]]
    return [value] if (operands[0] or "").lower().endswith(_GIT_CODE) else []


def _runs(machine: Machine, subcommand: str | None, rest: list[Value], state: State) -> None:
    known = [values.known(word) for word in rest]
    if subcommand == "submodule" and "foreach" in known:
        words = [word for word in rest[known.index("foreach") + 1 :] if values.known(word) != "--recursive"]
        machine.own_shell(wrappers.code_of(words), state, "git submodule foreach")
    elif subcommand == "bisect" and known[:1] == ["run"]:
        machine.call(rest[1:], state.copy(), external=True)
    elif subcommand == "rebase":
        for code in verbs.split(rest, frozenset({"-x", "--exec"})).values(frozenset({"-x", "--exec"})):
            machine.own_shell(code, state, "git rebase -x")
    elif subcommand == "config":
        for text in _settings(rest):
            with machine.under(Certainty.CONDITIONAL):
                machine.own_shell(values.text(text), state, "git config")
