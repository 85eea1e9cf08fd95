"""What the command line answers, read by a test.

Owns: reading. Does not own: who is asked (the fixture `generation`) or what is asserted beyond the form.
"""

import json
import subprocess
import sys
from typing import Any

PYTHON = ".".join(map(str, sys.version_info[:3]))
"""The version of this Python, as the app says it."""


def envelope_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Return the one JSON object on stdout; its exit code is the process's."""
    envelope = json.loads(done.stdout)
    assert list(envelope) == ["schema", "command", "status", "exit_code", "data", "errors"]
    assert envelope["schema"] == 1
    assert envelope["exit_code"] == done.returncode
    for error in envelope["errors"]:
        assert list(error) == ["code", "summary", "context", "hint", "retry"]
    assert isinstance(envelope, dict)
    return envelope
