"""Byte code of a build: which is carried over from the generation before, and whether all of it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.ops.build import carry_bytecode, has_uncompiled


def make(root: Path, *names: str, version: str = "3.13", source: Path | None = None) -> Path:
    """Have an environment with these files among its packages, sources the same as those of another where given."""
    packages = root / f"lib/python{version}/site-packages"
    for name in names:
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if source is not None and name.endswith(".py"):
            os.link(source / name, path)
        else:
            path.write_bytes(name.encode())
    return packages


def test_what_is_the_same_file_has_the_byte_code_of_before(tmp_path: Path) -> None:
    old = make(tmp_path / "old", "a.py", "__pycache__/a.cpython-313.pyc", "p/b.py", "p/__pycache__/b.cpython-313.pyc")
    new = make(tmp_path / "new", "a.py", "p/b.py", source=old)
    assert has_uncompiled(tmp_path / "new")
    assert carry_bytecode(LocalFilesystem(), tmp_path / "old", tmp_path / "new") == 2
    assert os.path.samefile(new / "p/__pycache__/b.cpython-313.pyc", old / "p/__pycache__/b.cpython-313.pyc")
    assert not has_uncompiled(tmp_path / "new")


def test_another_file_of_the_same_name_is_compiled(tmp_path: Path) -> None:
    make(tmp_path / "old", "a.py", "__pycache__/a.cpython-313.pyc")
    make(tmp_path / "new", "a.py")
    assert carry_bytecode(LocalFilesystem(), tmp_path / "old", tmp_path / "new") == 0
    assert has_uncompiled(tmp_path / "new")


@pytest.mark.parametrize(
    "name", ["a.cpython-312.pyc", "a.cpython-313.opt-1.pyc", "a.cpython-313-pytest-9.2.0.pyc", "a.pypy310.pyc"]
)
def test_byte_code_that_the_interpreter_does_not_read_is_none(tmp_path: Path, name: str) -> None:
    old = make(tmp_path / "old", "a.py", f"__pycache__/{name}")
    new = make(tmp_path / "new", "a.py", source=old)
    assert carry_bytecode(LocalFilesystem(), tmp_path / "old", tmp_path / "new") == 0
    assert not (new / "__pycache__").exists()
    assert has_uncompiled(tmp_path / "old")


def test_a_generation_on_another_python_is_compiled_anew(tmp_path: Path) -> None:
    old = make(tmp_path / "old", "a.py", "__pycache__/a.cpython-312.pyc", version="3.12")
    make(tmp_path / "new", "a.py", source=old)
    assert carry_bytecode(LocalFilesystem(), tmp_path / "old", tmp_path / "new") == 0


def test_a_file_that_no_interpreter_compiles_is_not_missed(tmp_path: Path) -> None:
    """Some wheels have sources below a directory of that name; each addition would have compiled everything again."""
    make(tmp_path, "a.py", "__pycache__/a.cpython-313.pyc", "__pycache__/new_syntax/main.py")
    assert not has_uncompiled(tmp_path)


def test_a_free_threaded_interpreter_finds_its_own(tmp_path: Path) -> None:
    make(tmp_path, "a.b.py", "__pycache__/a.b.cpython-313t.pyc", version="3.13t")
    assert not has_uncompiled(tmp_path)
