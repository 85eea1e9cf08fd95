"""Stands where pip would: hosts that install their own plugins by running pip are told the command that does it here.

Owns: the words and the exit code. Does not own: installing anything. It is put into a generation as `pip.py`, where no
pip is among the packages, and does nothing when it is imported; where there is one, pip runs it as if it were the
interpreter to install for. Standard library only: it runs inside any host's environment.
"""

import os
import shlex
import sys

VERBS = {"install": "plugin add", "download": "plugin add", "uninstall": "plugin remove"}
RUNNER = "__pip-runner__.py"
"""What pip gives the interpreter that it was told to install for, before its own words."""
VALUED = {"-r", "--requirement", "-c", "--constraint", "-e", "--editable"}
"""Options of pip that take a value which could be a plugin's name; addresses are left out anyway."""


def answer(words: list[str]) -> str:
    """Return what to do instead of `pip WORDS`."""
    words = words[1:] if words[:1] and os.path.basename(words[0]) == RUNNER else words
    home = os.path.abspath(os.path.join(sys.prefix, *[os.pardir] * 4))
    pm = shlex.quote(os.path.join(home, "bin", "perdure-pm"))
    asked = [
        word
        for number, word in enumerate(words)
        if not word.startswith("-") and "://" not in word and not (number and words[number - 1] in VALUED)
    ]
    verb = VERBS.get(asked[0]) if asked else None
    named = " ".join(map(shlex.quote, asked[1:])) or "NAME"
    command = "plugin list" if verb is None else f"{verb} {named}"
    return f"error: this environment belongs to Perdure and is read-only: pip does not change it\n  try: {pm} {command}"


if __name__ == "__main__":
    sys.stderr.write(f"{answer(sys.argv[1:])}\n")
    sys.exit(1)
