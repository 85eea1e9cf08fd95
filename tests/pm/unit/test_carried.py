"""A wheelhouse that says what it holds is looked at before it is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.errors import ArtefactMissing, IntegrityFault, PlatformUnsupported
from perdure_pm.model.network import Network
from perdure_pm.ops.carried import FILE_NAME, Carried, read_wheelhouse, require_wheelhouse
from perdure_pm.store.inventory import hash_file
from tests.pm.wheels import write_wheel


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Three wheels, and the file that says so."""
    folder = tmp_path / "house"
    folder.mkdir()
    files = [write_wheel(folder, name, "1.0") for name in ("one", "two", "three")]
    carried = [Carried(path.name, hash_file(path), path.stat().st_size, ("host",)) for path in files]
    write(folder, files=[item.to_json() for item in carried])
    return folder


def write(folder: Path, **changes: object) -> None:
    path = folder / FILE_NAME
    before = json.loads(path.read_text()) if path.exists() else {"schema": 1, "target": target_name(), "python": "3.12"}
    path.write_text(json.dumps({**before, **changes}), encoding="utf-8")


@pytest.mark.proves("wheelhouse-checked")
def test_one_that_is_as_it_was_may_be_used_also_with_more_files_in_it(house: Path) -> None:
    write_wheel(house, "another", "1.0")
    require_wheelhouse(Network(wheelhouse=house))
    require_wheelhouse(Network())


@pytest.mark.proves("wheelhouse-checked")
def test_every_missing_and_every_changed_file_is_named_at_once(house: Path) -> None:
    for name in ("one", "two"):
        (house / f"{name}-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ArtefactMissing, match=r"lacks one-1\.0-py3-none-any\.whl, two-1\.0") as missing:
        require_wheelhouse(Network(wheelhouse=house))
    assert missing.value.context["missing"] == ["one-1.0-py3-none-any.whl", "two-1.0-py3-none-any.whl"]
    changed = house / "three-1.0-py3-none-any.whl"
    data = bytearray(changed.read_bytes())
    data[40] ^= 1  # the size stays
    changed.write_bytes(data)
    with pytest.raises(
        IntegrityFault, match=r"three-1\.0-py3-none-any\.whl is not what its hash says, and one-"
    ) as wrong:
        require_wheelhouse(Network(wheelhouse=house))
    assert wrong.value.context["wrong"] == [changed.name]


@pytest.mark.proves("wheelhouse-checked")
def test_one_for_another_machine_is_refused_with_both_named(house: Path) -> None:
    write(house, target="darwin-arm64")
    with pytest.raises(PlatformUnsupported, match=f"is for darwin-arm64, and this machine is {target_name()}"):
        require_wheelhouse(Network(wheelhouse=house))
    write(house, target=f"{target_name()}-musl")
    require_wheelhouse(Network(wheelhouse=house))


@pytest.mark.proves("wheelhouse-checked")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ('{"schema": 2}', "it has schema 2, and 1 is what this version reads"),
        ('{"schema": 1, "target": "x", "files": [{"name": "../a", "sha256": "", "size": 1, "for": []}]}', "'../a'"),
    ],
)
def test_what_it_says_is_read_with_distrust(house: Path, text: str, reason: str) -> None:
    (house / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(IntegrityFault) as caught:
        read_wheelhouse(house)
    assert reason in caught.value.summary
    assert str(house / FILE_NAME) in caught.value.summary
