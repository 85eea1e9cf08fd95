"""Uninstall, typed at the launcher of a real home: it removes the runtime that it runs from."""

from __future__ import annotations

import pytest

from tests.system.machine import Installation


@pytest.mark.proves("pm-uninstall-own-files")
def test_a_real_home_goes_whole_by_its_own_launcher(own: Installation) -> None:
    answer = own.pm("uninstall", "--yes", "--json").succeeded()
    assert all(line.startswith("removing ") for line in answer.err.splitlines()), (
        "nothing, or progress where it is slow"
    )
    assert answer.json["data"]["left"] == []
    assert not own.home.exists()


@pytest.mark.proves("pm-uninstall-own-files")
def test_a_kept_state_is_taken_up_again_by_the_next_install(own: Installation) -> None:
    (own.home / "state").mkdir()
    (own.home / "state" / "notes").write_text("kept", encoding="utf-8")
    said = (own.home / "config.yaml").read_bytes()
    own.pm("uninstall", "--keep-state", "--yes").succeeded()
    kept = {path.relative_to(own.home).as_posix() for path in own.home.rglob("*") if path.is_file()}
    assert kept == {"config.yaml", "profiles/default/config.yaml", "state/notes"}
    own.up().succeeded()
    assert (own.home / "config.yaml").read_bytes() == said
    assert own.perdure("--version").out == "perdure 0.1.0\n"
