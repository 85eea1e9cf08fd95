"""The law that the host's lock is, checked on whatever the resolver answered."""

from __future__ import annotations

import pytest

from perdure_pm.model.errors import ConflictRefused, IntegrityFault
from perdure_pm.ops import resolve, trials
from perdure_pm.ops.build import split_requirements
from perdure_pm.ops.release import Release

LOCK = (
    "click==8.5.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
    'colorama==0.4.6 ; sys_platform == "win32" \\\n    --hash=sha256:22\n'
    'both==1.0 ; python_full_version < "3.12" \\\n    --hash=sha256:33\n'
    'both==2.0 ; python_full_version >= "3.12" \\\n    --hash=sha256:44\n'
)
RELEASE = Release(
    digest="0" * 12,
    name="perdure",
    version="0.1.0",
    requires_python=">=3.11",
    commands=("perdure",),
    wheels=(),
    plugins=(),
    requirements=LOCK,
    source="",
    groups=(),
    offered_extras=(),
)


@pytest.mark.proves("plugins-host-stays-locked")
def test_the_lock_binds_with_its_markers() -> None:
    pins = [pin.replace("\n", " ") for pin in trials.host_pins(RELEASE)]
    assert pins[:2] == ["click==8.5.1", 'colorama==0.4.6 ; sys_platform == "win32"']


@pytest.mark.proves("plugins-host-stays-locked")
@pytest.mark.parametrize(
    "answer",
    [
        LOCK,
        "click==8.5.1 \\\n    --hash=sha256:00\n",
        "both==2.0 \\\n    --hash=sha256:44\n",
        "gadget==1.0 \\\n    --hash=sha256:55\n",
        "",
    ],
)
def test_an_answer_that_keeps_the_lock_is_taken(answer: str) -> None:
    resolve._require_law(split_requirements(answer), split_requirements(LOCK))


@pytest.mark.proves("plugins-host-stays-locked")
@pytest.mark.parametrize("line", ["click==8.5.2", "click==8.5", "click==8", "colorama==0.4.5", "both==3.0"])
def test_an_answer_that_moves_the_host_is_refused_by_name(line: str) -> None:
    with pytest.raises(IntegrityFault) as caught:
        resolve._require_law(split_requirements(f"{line} \\\n    --hash=sha256:00\n"), split_requirements(LOCK))
    assert f"moved {line.partition('=')[0]} from the host's" in caught.value.summary


@pytest.mark.proves("pm-own-names-never-on-an-index")
@pytest.mark.parametrize(("added", "refused"), [("perdure-evil", True), ("perdure", True), ("perdurex", False)])
def test_an_answer_with_a_name_of_ours_is_refused(added: str, refused: bool) -> None:
    try:
        resolve._refuse_own_names([added, "gadget"], RELEASE, ["gadget"])
        assert not refused
    except ConflictRefused as error:
        assert (refused, error.context["names"]) == (True, [added])  # noqa: PT017 - both ways are one law
