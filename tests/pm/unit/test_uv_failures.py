"""How uv's failures become PM's errors: texts of uv 0.13.9 as it printed them, each with what a person is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure_pm.adapters.processes import Completed
from perdure_pm.adapters.uv import Uv
from perdure_pm.adapters.uv_failures import sort_failure
from perdure_pm.model.errors import (
    ArtefactMissing,
    BuildFailed,
    HomeUnusable,
    IntegrityFault,
    NetworkUnreachable,
    NoSpace,
    PerdureError,
)
from perdure_pm.model.network import Network
from perdure_pm.ops.trials import is_unsolvable
from perdure_pm.store.layout import Layout

ONLINE = Network()
MIRROR = Network(index_url="http://127.0.0.1:9/simple")
OFFLINE = Network(offline=True)
WHEELHOUSE = Network(wheelhouse=Path("wheels"))

USING = "Using Python 3.11.7 environment at: v\n"

NOT_IN_WHEELHOUSE = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because click was not found in the provided package locations and you require click==8.5.1, "
    + "we can conclude that your requirements are unsatisfiable.\n"
)
NOT_IN_CACHE = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because click was not found in the cache and you require click==8.5.1, we can conclude that your "
    + "requirements are unsatisfiable.\n\n"
    + "hint: Packages were unavailable because the network was disabled. When the network is disabled, registry "
    + "packages may only be read from the cache.\n"
)
NOT_ON_MIRROR = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because click was not found in the package registry and you require click==8.5.1, we can conclude "
    + "that your requirements are unsatisfiable.\n"
)
NEEDED_AND_NOWHERE = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because absent was not found in the package registry and own==1.0 depends on absent, we can conclude "
    + "that own==1.0 cannot be used.\n"
)
ONLY_OLDER = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because only idna<=3.20 is available and own==1.0 depends on idna>=99, we can conclude that own==1.0 "
    + "cannot be used.\n"
)
NOT_THAT_VERSION = (
    USING
    + "error: No solution found when resolving dependencies\n"
    + "  cause: Because there is no version of click==8.5.1 and you require click==8.5.1, we can conclude that your "
    + "requirements are unsatisfiable.\n"
)
NOT_THAT_NEW = (
    "error: No solution found when resolving dependencies\n"
    "  cause: Because only click<=8.5.1 is available and your project depends on click>=9, we can conclude that your "
    "project's requirements are unsatisfiable.\n"
)
REFUSED = (
    USING
    + "error: Request failed after 3 retries in 6.4s\n"
    + "  cause: Failed to fetch: http://127.0.0.1:9/simple/click/\n"
    + "  cause: error sending request for url (http://127.0.0.1:9/simple/click/)\n"
    + "  cause: client error (Connect)\n"
    + "  cause: tcp connect error\n"
    + "  cause: Connection refused (os error 111)\n"
)
NO_NAMES = (
    USING
    + "error: Request failed after 3 retries in 5.2s\n"
    + "  cause: Failed to fetch: https://index.invalid/simple/pluggy/\n"
    + "  cause: error sending request for url (https://index.invalid/simple/pluggy/)\n"
    + "  cause: client error (Connect)\n"
    + "  cause: dns error\n"
    + "  cause: failed to lookup address information: not known\n"
)
SILENT = (
    USING
    + "error: Request failed after 3 retries in 11.0s\n"
    + "  cause: Failed to fetch: http://127.0.0.1:9/simple/click/\n"
    + "  cause: error sending request for url (http://127.0.0.1:9/simple/click/)\n"
    + "  cause: operation timed out\n"
)
TAMPERED = (
    USING
    + "Resolved 1 package in 344ms\n"
    + "error: Failed to download `click==8.5.1`\n"
    + "  cause: Hash mismatch for `click==8.5.1`\n\n"
    + "         Expected:\n           sha256:"
    + "0" * 64
    + "\n\n"
    + "         Computed:\n           sha256:"
    + "8" * 64
    + "\n"
)
NO_ARCHIVE = (
    USING
    + "error: Failed to download `click==8.5.1`\n"
    + "  cause: Failed to extract archive: click-8.5.1-py3-none-any.whl\n"
    + "  cause: Invalid zip file structure\n"
    + "  cause: an upstream reader returned an error: ZIP structure was truncated\n"
)
FULL = (
    USING
    + "error: Failed to download `click==8.5.1`\n"
    + "  cause: failed to write to file `click/core.py`: No space left on device (os error 28)\n"
)
QUOTA = USING + "error: failed to create file `click/core.py`: Disk quota exceeded (os error 122)\n"
NO_WHEELS_FOLDER = "error: Failed to read `--find-links` directory: wheels\n  cause: No such file or directory\n"
UNBUILT = "warning: something\nerror: Failed to build `demo`\n  cause: the backend says no\n"
UNKNOWN = "error: something odd\n  cause: and why"

CASES: dict[str, tuple[str, Network, type[PerdureError], str]] = {
    "wheelhouse lacks it": (
        NOT_IN_WHEELHOUSE,
        WHEELHOUSE,
        ArtefactMissing,
        "the wheelhouse wheels lacks what is needed while installing packages: click==8.5.1",
    ),
    "cache lacks it": (
        NOT_IN_CACHE,
        OFFLINE,
        ArtefactMissing,
        "the cache lacks what is needed while installing packages: click==8.5.1",
    ),
    "mirror lacks it": (
        NOT_ON_MIRROR,
        MIRROR,
        ArtefactMissing,
        "the index http://127.0.0.1:9/simple lacks what is needed while installing packages: click==8.5.1",
    ),
    "index lacks what another needs": (
        NEEDED_AND_NOWHERE,
        ONLINE,
        ArtefactMissing,
        "the index lacks what is needed while installing packages: absent",
    ),
    "index lacks what is new enough": (
        ONLY_OLDER,
        ONLINE,
        ArtefactMissing,
        "the index lacks what is needed while installing packages: idna>=99",
    ),
    "mirror lacks that version": (
        NOT_THAT_VERSION,
        MIRROR,
        ArtefactMissing,
        "the index http://127.0.0.1:9/simple lacks what is needed while installing packages: click==8.5.1",
    ),
    "a version that is newer than any": (
        NOT_THAT_NEW,
        MIRROR,
        ArtefactMissing,
        "the index http://127.0.0.1:9/simple lacks what is needed while installing packages: click>=9",
    ),
    "index lacks it": (
        NOT_ON_MIRROR,
        ONLINE,
        ArtefactMissing,
        "the index lacks what is needed while installing packages: click==8.5.1",
    ),
    "no wheelhouse": (
        NO_WHEELS_FOLDER,
        WHEELHOUSE,
        ArtefactMissing,
        "the wheelhouse wheels cannot be read",
    ),
    "refused": (
        REFUSED,
        MIRROR,
        NetworkUnreachable,
        "the index could not be reached while installing packages: Connection refused (os error 111)",
    ),
    "no names": (
        NO_NAMES,
        ONLINE,
        NetworkUnreachable,
        "the index could not be reached while installing packages: failed to lookup address information: not known",
    ),
    "silent": (
        SILENT,
        MIRROR,
        NetworkUnreachable,
        "the index could not be reached while installing packages: operation timed out",
    ),
    "tampered": (
        TAMPERED,
        MIRROR,
        IntegrityFault,
        "what the index serves is not what the lock says, while installing packages: click==8.5.1",
    ),
    "no archive any more": (
        NO_ARCHIVE,
        ONLINE,
        IntegrityFault,
        "what the index serves is not what the lock says, while installing packages: click==8.5.1",
    ),
    "full": (FULL, ONLINE, NoSpace, "no space left while installing packages"),
    "quota": (QUOTA, OFFLINE, NoSpace, "no space left while installing packages"),
    "unbuilt": (UNBUILT, ONLINE, BuildFailed, "the source of demo does not build: the backend says no"),
    "unknown": (UNKNOWN, ONLINE, BuildFailed, "uv failed while installing packages: something odd: and why"),
    "silent failure": ("", ONLINE, BuildFailed, "uv failed while installing packages: it said nothing"),
}


@pytest.mark.proves("uv-failure-sorted")
@pytest.mark.parametrize("case", CASES)
def test_a_failure_of_uv_is_told_as_what_it_is(case: str) -> None:
    text, network, kind, summary = CASES[case]
    error = sort_failure(Completed(returncode=2, stdout="", stderr=text), "installing packages", network)
    assert (type(error), error.summary) == (kind, summary)
    more: dict[str, object] = {"package": "demo", "setting": "install.build-with-host"} if case == "unbuilt" else {}
    if "No solution found" in text:
        more["unsolvable"] = True
    assert error.context == {"uv": text.strip(), "exit_code": 2, **more}
    assert error.state == "unchanged"


@pytest.mark.proves("uv-failure-sorted")
def test_an_interpreter_that_the_cache_lacks_is_no_matter_of_wheels() -> None:
    text = "error: Network connectivity is disabled, but the requested data wasn't found in the cache: `https://x/y`"
    told = sort_failure(Completed(returncode=2, stdout="", stderr=text), "installing Python 3.13", OFFLINE)
    assert (type(told), told.hint) == (ArtefactMissing, "name an archive of one, or run the same command with network")


@pytest.mark.proves("uv-failure-sorted")
@pytest.mark.parametrize("case", [name for name, entry in CASES.items() if entry[2] is not BuildFailed])
def test_what_a_person_can_act_on_has_a_hint(case: str) -> None:
    text, network, *_ = CASES[case]
    assert sort_failure(Completed(returncode=2, stdout="", stderr=text), "x", network).hint


@pytest.mark.proves("uv-failure-sorted")
def test_several_missing_packages_are_all_named() -> None:
    text = NOT_IN_WHEELHOUSE.replace("you require click==8.5.1", "you require click==8.5.1 and rich==15.0.0")
    error = sort_failure(Completed(returncode=1, stdout="", stderr=text), "installing packages", WHEELHOUSE)
    assert error.summary.endswith(": click==8.5.1, rich==15.0.0")


def test_a_mirrors_password_is_in_no_error() -> None:
    """In its own text uv masks it; what PM adds must not undo that."""
    network = Network(index_url="http://somebody:secret@127.0.0.1:9/simple")
    error = sort_failure(Completed(returncode=1, stdout="", stderr=NOT_ON_MIRROR), "installing packages", network)
    assert "secret" not in str(error.to_json())
    assert "http://***@127.0.0.1:9/simple" in error.summary


def test_uvs_text_is_kept_to_its_end_where_it_is_long() -> None:
    text = "x" * 5000 + "\nerror: the end"
    error = sort_failure(Completed(returncode=1, stdout="", stderr=text), "installing packages", ONLINE)
    assert len(str(error.context["uv"])) == 4000
    assert str(error.context["uv"]).endswith("error: the end")


DENIED = (
    NOT_ON_MIRROR + "\nhint: An index URL (http://127.0.0.1:9/simple) could not be queried due to a lack of valid "
    "authentication credentials (401 Unauthorized)\n"
)
FORBIDDEN = (
    NOT_ON_MIRROR + "\nhint: An index (http://127.0.0.1:9/simple) returned a 403 Forbidden error. Check that the index "
    "URL is correct and the credentials are valid.\n"
)


@pytest.mark.parametrize(("text", "said"), [(DENIED, "401 Unauthorized"), (FORBIDDEN, "403 Forbidden")])
def test_an_index_that_refuses_is_not_told_as_one_that_lacks_a_package(text: str, said: str) -> None:
    error = sort_failure(Completed(returncode=1, stdout="", stderr=text), "installing packages", MIRROR)
    assert type(error) is NetworkUnreachable
    assert error.summary == f"the index http://127.0.0.1:9/simple refused access while installing packages: {said}"
    assert error.retry == "after-change"
    assert "credentials" in str(error.hint)


@pytest.mark.platforms("linux", "darwin")
def test_a_uv_that_cannot_be_started_is_told_with_its_path(home: Path) -> None:
    """A home on a filesystem that is mounted without the right to start programs."""
    layout = Layout(home)
    binary = layout.uv("0.13.9")
    binary.parent.mkdir(parents=True)
    binary.write_bytes(b"")
    with pytest.raises(HomeUnusable, match=f"{re.escape(str(binary))} cannot be started: Permission denied") as caught:
        Uv(binary, layout, ONLINE, {}).check_lock(home, binary)
    assert "noexec" in str(caught.value.hint)


@pytest.mark.proves("plugins-outage-is-no-conflict")
@pytest.mark.parametrize("before", ["", "warning: `x.whl` is missing an upload date\n" * 400])
def test_that_there_is_no_solution_is_known_however_long_the_explanation_is(before: str) -> None:
    """Case 82: the marker is far before what is kept of uv's words."""
    said = f"{before}error: No solution found when resolving dependencies:\n  cause: Because {'x depends on y. ' * 900}"
    failure = sort_failure(Completed(returncode=1, stdout="", stderr=said), "resolving", Network())
    assert "No solution found" not in str(failure.context["uv"])
    assert is_unsolvable(failure)
    killed = Completed(returncode=-9, stdout="", stderr=said.replace("No solution found", "It broke"))
    assert not is_unsolvable(sort_failure(killed, "resolving", Network()))
