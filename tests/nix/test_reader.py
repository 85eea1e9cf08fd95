"""The reader of uv.lock against those who have the last word: packaging on markers and wheels, uv on the closure."""

from __future__ import annotations

import os
import random
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import packaging._manylinux
import packaging._musllinux
import pytest
from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms, sys_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from perdure_pm.model.settings import SETTINGS, network_of, network_variables, resolve
from tests.nix.machine import Nix

LOCKS = ("uv.lock", "pm/uv.lock")


def environment(**changes: str) -> dict[str, str]:
    found = {
        "implementation_name": "cpython",
        "implementation_version": "3.11.2",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "6.1.0-13-amd64",
        "platform_system": "Linux",
        "platform_version": "#1 SMP",
        "python_full_version": "3.11.2",
        "python_version": "3.11",
        "sys_platform": "linux",
        "extra": "",
    }
    return {**found, **changes}


ENVIRONMENTS = (
    environment(),
    environment(python_full_version="3.14.0rc1", python_version="3.14", implementation_version="3.14.0rc1"),
    environment(python_full_version="3.13.0", python_version="3.13", platform_machine="aarch64", extra="fast"),
    environment(sys_platform="darwin", platform_system="Darwin", platform_machine="arm64", platform_release="23.1.0"),
    environment(sys_platform="win32", platform_system="Windows", os_name="nt", platform_machine="AMD64"),
    environment(platform_python_implementation="PyPy", implementation_name="pypy", implementation_version="7.3.17"),
)

WRITTEN = (
    "python_version >= '3.9'",
    "'3.9' <= python_version",
    "python_version in '3.10 3.11 3.12'",
    "python_version not in '3.10 3.11'",
    "python_version not  in '3.14'",
    "python_full_version == '3.11.*'",
    "python_full_version != '3.11.*'",
    "python_full_version ~= '3.11.1'",
    "python_full_version ~= '3.11'",
    "python_version ~= '3'",
    "python_full_version === '3.11.2'",
    "python_full_version < '3.14'",
    "python_full_version < '3.14.0rc2'",
    "python_full_version > '3.14.0b4' and python_full_version <= '3.14.0rc1'",
    "python_full_version >= '3.14.dev0'",
    "python_full_version > '3.11.2.post1' or python_full_version == '3.11.2+local'",
    "python_version == '3.11.0.0'",
    "python_version >= '3.x'",
    "implementation_version >= '7.3' and implementation_name == 'pypy'",
    "platform_release >= '20.0'",
    "platform_release == '6.1.0-13-amd64'",
    "platform_machine == 'x86_64' or platform_machine == 'aarch64' and sys_platform == 'darwin'",
    "(platform_machine == 'x86_64' or platform_machine == 'aarch64') and sys_platform == 'darwin'",
    '((os_name == "posix"))',
    'os_name == "a\'b"',
    "sys.platform == 'linux' and os.name != 'nt'",
    "platform.python_implementation == 'CPython' and python_implementation == 'CPython'",
    "extra == 'fast'",
    "extra == 'FAST'",
    "extra != 'slow_._er'",
    "'linux' in sys_platform",
    "'' in sys_platform",
    "'+' in platform_version",
    "'1 SM' in platform_version and '[' not in platform_version",
    "sys_platform=='linux'and os_name=='posix'",
    "sys_platform < 'm'",
    "sys_platform ~= 'linux'",
    "sys_platform == 'linux' or",
    "(sys_platform == 'linux'",
    "sys_platform == 'linux')",
    "sys_platform == linux",
    "sys_platform = 'linux'",
    "'a' == 'a'",
    "sys_platform == os_name",
    "unknown == 'x'",
    "",
    "sys_platform == 'linux' sys_platform == 'linux'",
    "not sys_platform == 'linux'",
)


def markers_in(value: object) -> Iterator[str]:
    """Yield every marker of a lock, wherever it stands."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name == "marker":
                yield part
            elif name in {"resolution-markers", "supported-markers", "required-markers"}:
                yield from part
            else:
                yield from markers_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from markers_in(part)


def truth(marker: str, values: Mapping[str, str]) -> bool | None:
    """Return what packaging says; None where it refuses."""
    try:
        return Marker(marker).evaluate({**values})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return None


def compare_markers(nix: Nix, markers: list[str]) -> None:
    cases = [{"marker": marker, "environment": values} for marker in markers for values in ENVIRONMENTS]
    nix.hand(cases)
    found = nix.evaluate(
        "map (case: let tried = builtins.tryEval ((import (nix + /markers.nix)).evaluate case.environment case.marker);"
        " in if tried.success then tried.value else null) cases"
    )
    expected = [truth(case["marker"], case["environment"]) for case in cases]  # type: ignore[arg-type]
    assert [
        (case, mine, theirs) for case, mine, theirs in zip(cases, found, expected, strict=True) if mine is not theirs
    ] == []


@pytest.mark.proves("nix-reader-agrees")
def test_markers_are_true_where_packaging_says_so(nix: Nix, checkout: Path) -> None:
    locked = {marker for lock in LOCKS for marker in markers_in(tomllib.loads((checkout / lock).read_text("utf-8")))}
    assert locked
    compare_markers(nix, [*WRITTEN, *sorted(locked)])


def composed(chance: random.Random, atoms: list[str], depth: int) -> str:
    """Return a marker of parts that are joined and bracketed by chance."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(atoms)
    parts = [composed(chance, atoms, depth - 1) for _ in range(chance.randint(2, 3))]
    joined = chance.choice((" and ", " or ")).join(parts)
    return f"({joined})" if chance.random() < 0.5 else joined


@pytest.mark.proves("nix-reader-agrees")
def test_markers_of_any_shape_are_true_where_packaging_says_so(nix: Nix) -> None:
    # Without those that nobody can answer: packaging asks each part, also where another one has decided already.
    atoms = [one for one in WRITTEN if all(truth(one, values) is not None for values in ENVIRONMENTS)]
    chance = random.Random(11)  # noqa: S311 - the same shapes each time
    compare_markers(nix, [composed(chance, [f"({one})" for one in atoms] + atoms[:3], 3) for _ in range(200)])


@pytest.mark.proves("nix-reader-agrees")
def test_versions_hold_where_packaging_says_so(nix: Nix) -> None:
    versions = (
        "1",
        "1.0",
        "1.0a1",
        "1.0.dev3",
        "1.0rc1.dev2",
        "1.0.post1",
        "1!0.9",
        "1.0+abc.5",
        "1.10",
        "v2.0-1",
        "2",
    )
    operators = ("==", "!=", "<", "<=", ">", ">=", "~=", "===")
    values = [environment(python_full_version=version) for version in versions]
    cases = [
        {"marker": f"python_full_version {operator} '{wanted}'", "environment": one}
        for operator in operators
        for wanted in (*versions, "1.*", "1.0a1.*")
        for one in values
    ]
    nix.hand(cases)
    found = nix.evaluate(
        "map (case: let tried = builtins.tryEval ((import (nix + /markers.nix)).evaluate case.environment case.marker);"
        " in if tried.success then tried.value else null) cases"
    )
    expected = [truth(str(case["marker"]), case["environment"]) for case in cases]  # type: ignore[arg-type]
    wrong = [
        (case["marker"], case["environment"]["python_full_version"], mine, theirs)  # type: ignore[index]
        for case, mine, theirs in zip(cases, found, expected, strict=True)
        if mine is not theirs
    ]
    assert wrong == []


TARGETS: tuple[dict[str, Any], ...] = (
    {"os": "linux", "arch": "x86_64", "pythonMinor": 11, "libc": {"name": "glibc", "minor": 36}, "macos": 11},
    {"os": "linux", "arch": "x86_64", "pythonMinor": 14, "libc": {"name": "glibc", "minor": 17}, "macos": 11},
    {"os": "linux", "arch": "aarch64", "pythonMinor": 13, "libc": {"name": "glibc", "minor": 39}, "macos": 11},
    {"os": "linux", "arch": "x86_64", "pythonMinor": 12, "libc": {"name": "musl", "minor": 2}, "macos": 11},
    {"os": "darwin", "arch": "arm64", "pythonMinor": 12, "libc": {"name": "glibc", "minor": 28}, "macos": 14},
    {"os": "darwin", "arch": "x86_64", "pythonMinor": 11, "libc": {"name": "glibc", "minor": 28}, "macos": 11},
)


def tags_of(target: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Tag]:
    """Return the tags that packaging has for a target, the best first."""
    if target["os"] == "darwin":
        platforms = list(mac_platforms((target["macos"], 0), target["arch"]))
    else:
        libc = target["libc"]
        if libc["name"] == "glibc":
            monkeypatch.setattr(packaging._manylinux, "_get_glibc_version", lambda: (2, libc["minor"]))
            monkeypatch.setattr(packaging._manylinux, "_have_compatible_abi", lambda *_: True)
            platforms = list(packaging._manylinux.platform_tags([target["arch"]]))
        else:
            version = packaging._musllinux._MuslVersion(1, libc["minor"])
            monkeypatch.setattr(packaging._musllinux, "_get_musl_version", lambda *_: version)
            platforms = list(packaging._musllinux.platform_tags([target["arch"]]))
        platforms.insert(0, f"linux_{target['arch']}")
    python = (3, target["pythonMinor"])
    return [
        *cpython_tags(python, abis=[f"cp3{python[1]}"], platforms=platforms),
        *compatible_tags(python, f"cp3{python[1]}", platforms),
    ]


def best(package: Mapping[str, Any], tags: list[Tag]) -> str | None:
    """Return the file name of the wheel that an installer takes."""
    ranks = {tag: at for at, tag in reversed(list(enumerate(tags)))}
    fit = []
    for wheel in package.get("wheels", ()):
        name = str(wheel["url"]).rpartition("/")[2].replace("%2B", "+")
        _, _, build, its = parse_wheel_filename(name)
        found = [ranks[tag] for tag in its if tag in ranks]
        if found:
            fit.append((-min(found), build, name))
    return max(fit)[2] if fit else None


def compare_wheels(nix: Nix, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nix.hand([*TARGETS])
    found = nix.evaluate(
        f"map (target: (import (nix + /lock.nix) {{ text = builtins.readFile {lock}; target = target // "
        "{ markers = { }; }; }).chosen) cases"
    )
    packages = tomllib.loads(lock.read_text("utf-8"))["package"]
    for target, chosen in zip(TARGETS, found, strict=True):
        tags = tags_of(target, monkeypatch)
        expected = [
            {"name": package["name"], "version": package.get("version", ""), "filename": best(package, tags)}
            for package in packages
        ]
        assert chosen == expected


@pytest.mark.proves("nix-reader-agrees")
def test_the_tags_are_those_of_packaging_in_its_order(nix: Nix, monkeypatch: pytest.MonkeyPatch) -> None:
    nix.hand([*TARGETS])
    found = nix.evaluate("map (import (nix + /tags.nix)).supported cases")
    for target, tags in zip(TARGETS, found, strict=True):
        assert tags == [str(tag) for tag in tags_of(target, monkeypatch)]


@pytest.mark.proves("nix-reader-agrees")
def test_this_machines_target_has_this_pythons_tags(nix: Nix) -> None:
    stub = f"import {nix.tree}/tests/nix/stub-nixpkgs {{ }}"
    found = nix.evaluate(
        f"let pkgs = {stub}; in (import (nix + /tags.nix)).supported "
        "(import (nix + /target.nix) { inherit pkgs; python = pkgs.python3; })"
    )
    assert found == [str(tag) for tag in sys_tags()]


@pytest.mark.proves("nix-reader-agrees")
@pytest.mark.parametrize("lock", LOCKS)
def test_the_wheels_are_those_that_packaging_ranks_first(
    nix: Nix, checkout: Path, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    compare_wheels(nix, nix.tree / lock, monkeypatch)


def closure_of(
    nix: Nix, lock: Path, project: str, values: Mapping[str, str], *, groups: list[str], extras: list[str]
) -> set[str]:
    """Return what the reader finds, as name and version, without what lies in the tree."""
    platform = {"linux": "linux", "darwin": "darwin"}[values["sys_platform"]]
    nix.hand(
        {
            "target": {
                "os": platform,
                "arch": values["platform_machine"],
                "pythonMinor": int(values["python_version"].partition(".")[2]),
                "libc": {"name": "glibc", "minor": 36},
                "macos": 14,
                "markers": values,
            },
            "wanted": {"name": project, "groups": groups, "extras": extras},
        }
    )
    found = nix.evaluate(
        f"map (source: if source ? tree then null else {{ inherit (source) name version; }})"
        f" ((import (nix + /lock.nix) {{ text = builtins.readFile {lock}; inherit (cases) target;"
        ' trees = { "." = "x"; "compat" = "x"; "../compat" = "x"; "plugins/facts" = "x"; }; }).closure cases.wanted)'
    )
    return {f"{source['name']}=={source['version']}" for source in found if source is not None}


def exported(uv: Path, folder: Path, values: Mapping[str, str], *, groups: list[str], extras: list[str]) -> set[str]:
    """Return what uv says that it installs."""
    words = ["export", "--frozen", "--offline", "--no-hashes", "--no-header", "--no-annotate", "--no-emit-local"]
    words += [
        "--no-default-groups",
        *(f"--group={group}" for group in groups),
        *(f"--extra={extra}" for extra in extras),
    ]
    done = subprocess.run(
        [uv, *words, "--no-config", "--project", folder],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath, "HOME": str(folder)},
    )
    lines = [Requirement(line) for line in done.stdout.splitlines() if line and not line.startswith(("#", "-", "."))]
    return {
        f"{canonicalize_name(line.name)}{line.specifier}"
        for line in lines
        if line.marker is None or line.marker.evaluate({**values})
    }


@pytest.mark.proves("nix-reader-agrees")
@pytest.mark.parametrize(
    ("folder", "project", "groups"),
    [
        (".", "perdure", ["bundled"]),
        (".", "perdure", ["bundled", "test", "lint"]),
        ("pm", "perdure-pm", ["test", "tools"]),
    ],
)
def test_what_is_installed_is_what_uv_installs(
    nix: Nix, uv: Path, folder: str, project: str, groups: list[str]
) -> None:
    for values in ENVIRONMENTS[:4]:
        wanted = exported(uv, nix.tree / folder, values, groups=groups, extras=[])
        assert wanted
        assert closure_of(nix, nix.tree / folder / "uv.lock", project, values, groups=groups, extras=[]) == wanted


REAL: dict[str, tuple[list[str], list[str]]] = {
    "datasette": (["datasette>=0.65,<1", "datasette-cluster-map", "sqlite-utils"], []),
    "science": (["scipy>=1.14", "pandas>=2.2", "matplotlib>=3.9"], []),
    "web": (["fastapi[standard]>=0.115", "sqlalchemy[asyncio]>=2.0.30", "httpx[http2,socks]"], []),
    "documents": (["sphinx>=8", "mkdocs-material", "nbformat"], []),
    "optional": (["requests[socks]>=2.32"], ["cryptography>=43", "uvloop>=0.20; sys_platform != 'win32'"]),
}
"""Projects as people have them: what each needs, and what its extra `more` adds."""


@pytest.mark.slow
@pytest.mark.proves("nix-reader-agrees")
@pytest.mark.parametrize("name", sorted(REAL))
def test_locks_of_other_projects_are_read_as_uv_and_packaging_read_them(
    nix: Nix,
    uv: Path,
    network_environment: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    needed, more = REAL[name]
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "sample"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = {needed!r}\n'
        f"[project.optional-dependencies]\nmore = {more!r}\n",
        encoding="utf-8",
    )
    network = network_variables(network_of(resolve(SETTINGS, {}, network_environment, {})))
    subprocess.run(
        [uv, "lock", "--no-config", "--system-certs", "--project", tmp_path],
        check=True,
        capture_output=True,
        env={"PATH": os.defpath, "HOME": str(tmp_path), **network},
    )
    lock = tmp_path / "uv.lock"
    compare_markers(nix, sorted(set(markers_in(tomllib.loads(lock.read_text("utf-8"))))) or ["os_name == 'posix'"])
    compare_wheels(nix, lock, monkeypatch)
    extras = ["more"] if more else []
    for values in ENVIRONMENTS[:4]:
        found = closure_of(nix, lock, "sample", values, groups=[], extras=extras)
        assert found == exported(uv, tmp_path, values, groups=[], extras=extras)


HEAD = (
    'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "root"\nversion = "1"\nsource = { virtual = "." }\n'
)
NEEDS = 'dependencies = [{ name = "one" }]\n[[package]]\nname = "one"\nversion = "2"\n'
WHEEL = 'source = {{ registry = "r" }}\nwheels = [{{ url = "https://example.org/one-2-{0}.whl", hash = "{1}" }}]'


@pytest.mark.proves("nix-foreign-refused")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            NEEDS
            + 'source = { registry = "r" }\nsdist = { url = "https://example.org/one-2.tar.gz", hash = "sha256:0" }',
            "one 2 cannot be installed here: there is only a source distribution of it",
        ),
        (
            NEEDS + 'source = { git = "https://example.org/one.git#abc" }',
            "one 2 cannot be installed here: its source is the repository https://example.org/one.git#abc",
        ),
        (
            NEEDS + 'source = { directory = "../one" }',
            "one 2 cannot be installed here: its source is the directory ../one, which is none of this tree's own",
        ),
        (
            NEEDS + 'source = { editable = "/srv/one" }',
            "one 2 cannot be installed here: its source is the directory /srv/one, which is none of this tree's own",
        ),
        (
            NEEDS + 'source = { path = "one-2.tar.gz" }',
            "one 2 cannot be installed here: its source is the file one-2.tar.gz",
        ),
        (
            NEEDS + 'source = { url = "https://example.org/one-2.zip" }\nsdist = { hash = "sha256:0" }',
            "one 2 cannot be installed here: there is only a source distribution of it",
        ),
        (
            NEEDS + WHEEL.format("cp310-cp310-win_amd64", "sha256:" + "0" * 64),
            "one 2 cannot be installed here: none of its wheels is for linux x86_64, Python 3.11",
        ),
        (
            NEEDS + WHEEL.format("py3-none-any", "md5:0"),
            "one 2 cannot be installed here: its wheel one-2-py3-none-any.whl has no sha256",
        ),
        (
            NEEDS + 'source = { registry = "shelf" }\nwheels = [{ path = "one-2-py3-none-any.whl" }]',
            "one 2 cannot be installed here: its wheel one-2-py3-none-any.whl has no address",
        ),
        ('dependencies = [{ name = "two" }]\n', "root 1 needs two, and there are 0 of that name in the lock"),
        ('dependencies = [{ name = "root", extra = ["x"] }]\n', "root 1 has no extra x"),
    ],
)
def test_what_is_no_wheel_of_an_index_is_refused_by_name(nix: Nix, tmp_path: Path, text: str, why: str) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(HEAD + text, encoding="utf-8")
    nix.hand({**TARGETS[0], "markers": ENVIRONMENTS[0]})
    ended = nix.run(
        "nix-instantiate",
        "--eval",
        "--strict",
        "-E",
        f'(import {nix.tree}/nix/lock.nix {{ text = builtins.readFile {lock}; trees."." = "x";'
        f' target = builtins.fromJSON (builtins.readFile {nix.cases}); }}).closure {{ name = "root"; }}',
        expect=1,
    )
    assert f"uv.lock: {why}" in ended.err


@pytest.mark.proves("nix-foreign-refused")
@pytest.mark.parametrize(
    ("head", "why"),
    [
        (HEAD.replace("version = 1\n", "version = 2\n", 1), "uv.lock: its version is 2, and this reads version 1"),
        (
            'conflicts = [[{ package = "root", extra = "a" }, { package = "root", extra = "b" }]]\n' + HEAD,
            "conflicts (a, b)",
        ),
    ],
)
def test_a_lock_of_another_form_is_refused(nix: Nix, tmp_path: Path, head: str, why: str) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(head, encoding="utf-8")
    nix.hand({**TARGETS[0], "markers": ENVIRONMENTS[0]})
    text = (
        f'(import {nix.tree}/nix/lock.nix {{ text = builtins.readFile {lock}; trees."." = "x";'
        f' target = builtins.fromJSON (builtins.readFile {nix.cases}); }}).closure {{ name = "root"; }}'
    )
    assert why in nix.run("nix-instantiate", "--eval", "--strict", "-E", text, expect=1).err
