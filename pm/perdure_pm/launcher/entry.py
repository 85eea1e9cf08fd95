"""Starts PM's command line in the runtime that this file was copied into, or hands over to the seed that rebuilds it.

Owns: noticing, before anything of PM is imported, that the runtime is damaged. Does not own: the rebuild. It stands
alone: whatever it would import from PM could be what is broken.
"""

from __future__ import annotations

import os
import sys

SKIPPED = "PERDURE_RUNTIME_SKIPPED"
"""Tells the launcher that this runtime's interpreter is of no use, neither to run PM nor to rebuild it."""


def find_problem(runtime: str) -> str:
    """Return what is wrong with the runtime, or an empty string: sizes only, a few milliseconds."""
    import json  # not above: where the standard library is damaged, that is told too

    try:
        with open(os.path.join(runtime, "files.json"), "rb") as file:
            files = json.load(file)["files"]
        with open(os.path.join(runtime, "record.json"), "rb") as file:
            version = json.load(file)["inputs"]["python"]["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"its record cannot be read ({error})"
    if version.split(".")[:2] != [str(part) for part in sys.version_info[:2]]:
        return f"it was built for Python {version}, and its interpreter is now {sys.version.split()[0]}"
    for name, entry in files.items():
        try:
            size = os.stat(os.path.join(runtime, name)).st_size
        except OSError:
            return f"{name} is missing"
        if size != entry[0]:
            return f"{name} has {size} bytes instead of {entry[0]}"
    return ""


def refuse(summary: str, hint: str | None, code: str = "integrity", exit_code: int = 8) -> None:
    """End the process with what is wrong: an object on standard output where JSON was asked for, words otherwise."""
    retry, state = ("after-change", "needs-recovery") if exit_code == 8 else ("later", "unchanged")
    words = sys.argv[1:]
    asked = "--json" in (words[: words.index("--")] if "--" in words else words)
    if asked or os.environ.get("PERDURE_JSON", "").strip().lower() in ("1", "true", "yes", "on"):
        import json

        error: dict[str, object] = {
            "code": code,
            "summary": summary,
            "context": {},
            "hint": hint,
            "retry": retry,
            "state": state,
        }
        envelope = {"schema": 1, "command": "", "status": "failed", "exit_code": exit_code, "data": {}}
        sys.stdout.write(json.dumps({**envelope, "errors": [error]}) + "\n")
    else:
        sys.stderr.write(f"error: {summary}\n  {f'try: {hint}' if hint else f'state: {state}'}\n")
    sys.exit(exit_code)


def rescue(runtime: str, problem: str) -> None:
    """Start the seed's bootstrap in place of this process; return only when there is none."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(runtime)))
    try:
        with open(os.path.join(home, "pm", "seed", "current"), encoding="ascii") as file:
            bootstrap = os.path.join(home, "pm", "seed", file.read().strip(), "pm", "bootstrap.py")
    except (OSError, ValueError):
        bootstrap = ""
    if os.environ.get("PERDURE_RESCUED") == "1" or not os.path.isfile(bootstrap):
        refuse(
            f"PM's runtime is damaged: {problem}",
            f'python3 pm/bootstrap.py --home "{home}" up   (in a checkout of Perdure)',
        )
    sys.stderr.write(f"PM's runtime is damaged: {problem}; it is rebuilt first\n")
    python = getattr(sys, "_base_executable", None) or sys.executable
    command = [python, "-I", bootstrap, "--home", home, "rescue", *sys.argv[1:]]
    if os.name == "nt":
        import subprocess  # only here: Windows has no exec that keeps the console waiting

        sys.exit(subprocess.call(command))
    os.execv(python, command)


def start_anew(runtime: str) -> None:
    """Start the launcher again, which looks for another interpreter to rebuild PM with; return where it cannot."""
    launcher = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(runtime))), "bin", "perdure-pm")
    if os.name == "posix" and SKIPPED not in os.environ and os.access(launcher, os.X_OK):
        os.environ[SKIPPED] = "1"
        os.execv(launcher, [launcher, *sys.argv[1:]])


def start() -> None:
    """Run the command line; never returns."""
    runtime = os.path.dirname(os.path.abspath(__file__))
    try:
        problem = find_problem(runtime)
    except (ImportError, SyntaxError) as error:
        problem = f"the standard library of its interpreter is damaged ({error})"
        if os.environ.get("PERDURE_RESCUED") != "1":
            start_anew(runtime)
    if not problem:
        try:
            from perdure_pm.cli import main, prepare  # only after the check

            prepare(os.path.dirname(os.path.dirname(os.path.dirname(runtime))))
        except Exception as error:  # noqa: BLE001 - whatever a damaged module raises
            problem = f"it cannot be imported ({type(error).__name__}: {error})"
        else:
            end(main())
    rescue(runtime, problem)


def end(code: int) -> None:
    """End the process at once where all is written: tidying an interpreter up takes longer than many a verb."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        sys.exit(code)  # the interpreter's own end knows closed and full streams
    os._exit(code)


if __name__ == "__main__":
    try:
        start()
    except KeyboardInterrupt:  # before the command line could take it: nothing was asked of anybody yet
        refuse("interrupted", None, "cancelled", 130)
