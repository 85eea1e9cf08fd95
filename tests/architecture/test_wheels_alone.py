"""The app's wheel, its bundled plugin's and compat's, alone: they need nothing of PM, whatever is imported how."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lone_wheels import build_wheels, import_everything, install_alone


@pytest.mark.proves("ground-sides-apart")
def test_the_app_and_compat_install_without_an_index_and_import_without_pm(
    uv: Path, checkout: Path, tmp_path: Path
) -> None:
    wheels = build_wheels(uv, [".", "compat"], tmp_path)
    python = install_alone(uv, ".", wheels, ["perdure", "perdure-compat"], tmp_path)
    found = import_everything(python, ["perdure", "perdure_compat"], ["perdure_pm", "perdure_facts", "pytest"])
    assert found["present"] == []
    assert [place for place in found["from"] if not Path(place).is_relative_to(tmp_path)] == []
    sources = [*(checkout / "app" / "perdure").rglob("*.py"), *(checkout / "compat" / "perdure_compat").rglob("*.py")]
    assert len(found["loaded"]) == len([path for path in sources if path.name != "__main__.py"])
