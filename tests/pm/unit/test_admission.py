"""The rules by which what an index offers is let in: exceptions, ages, newest releases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from packaging.specifiers import SpecifierSet

from perdure_pm.model.admission import Admission, parse_exemption
from perdure_pm.model.config import parse_home_config
from perdure_pm.model.document import Document
from perdure_pm.model.errors import ConfigInvalid, UsageFault
from perdure_pm.model.lock_view import parse_registry, with_cutoff, without_cutoff
from perdure_pm.model.offer import Offer, find_newest, is_far_back
from perdure_pm.ops.screening import exact_pins, read_ages

NOW = datetime(2026, 11, 29, tzinfo=UTC)
LOCK = """version = 1
revision = 5

[options]
prerelease-mode = "explicit"

[[package]]
name = "gadget"
version = "1.5"
source = { registry = "https://index.example/simple" }
dependencies = [
    { name = "sprocket" },
]
sdist = { url = "https://files.example/g.tar.gz", hash = "sha256:00", size = 1, upload-time = "2026-01-02T03:04:05Z" }
wheels = [
    { url = "https://files.example/g.whl", hash = "sha256:00", size = 1, upload-time = "2026-11-20T03:04:05.678Z" },
]

[[package]]
name = "half"
version = "1.0"
source = { registry = "https://index.example/simple" }
wheels = [
    { url = "https://files.example/h-1.whl", hash = "sha256:00", size = 1, upload-time = "2026-11-20T03:04:05.678Z" },
    { url = "https://files.example/h-2.whl", hash = "sha256:00", size = 1 },
]

[[package]]
name = "local"
version = "2.0"
source = { path = "local.whl" }
wheels = [
    { filename = "local.whl", hash = "sha256:00" },
]
"""


def settings(**install: object) -> Admission:
    return parse_home_config(Document(file="config.yaml", data={"install": install})).admission


def test_what_the_configuration_says_of_admission_and_what_it_means_by_default() -> None:
    assert settings() == Admission(build_policy="ask", build=(), direct_urls=(), quarantine=timedelta(days=7))
    found = settings(
        **{
            "quarantine": 0,
            "build-policy": "allow",
            "build": ["B_b"],
            "direct-urls": ["A.a"],
            "quarantine-exceptions": ["Gadget==1.5 until 2026-12-01 because of  CVE-1"],
        }
    )
    assert (found.quarantine, found.builds, found.build, found.direct_urls) == (timedelta(0), None, ("b-b",), ("a-a",))
    (one,) = found.exemptions
    assert (one.name, one.version, one.until, one.reason) == ("gadget", "1.5", date(2026, 12, 1), "of CVE-1")
    assert settings(**{"build-policy": "never", "build": ["x"]}).builds == ("x",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quarantine", -1),
        ("quarantine", True),
        ("quarantine", "7"),
        ("quarantine", 7.5),
        ("quarantine", 10**6),
        ("build-policy", "maybe"),
        ("build-policy", True),
        ("quarantine-exceptions", "gadget==1.5 until 2026-12-01 because x"),
        ("quarantine-exceptions", ["gadget"]),
        ("quarantine-exceptions", ["a==1 until 2026-12-01 because x", "A==2 until 2026-12-01 because x"]),
        ("direct-urls", ["not a name"]),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(key: str, value: object) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        settings(**{key: value})
    assert f"install.{key}" in caught.value.summary


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize(
    "text",
    [
        "gadget==1.5",
        "gadget>=1.5 until 2026-12-01 because x",
        "gadget==1.* until 2026-12-01 because x",
        "gadget==1.5 until tomorrow because x",
        "gadget==1.5 until 2026-13-01 because x",
        "gadget==1.5 until 2026-12-01",
        "gadget==1.5 until 2026-12-01 because ",
        "",
    ],
)
def test_an_exception_without_version_day_or_reason_is_none(text: str) -> None:
    with pytest.raises(UsageFault, match="until YYYY-MM-DD because REASON"):
        parse_exemption(text)


@pytest.mark.proves("plugins-quarantine")
def test_a_package_is_as_old_as_its_newest_file_and_of_no_age_where_one_file_has_none() -> None:
    gadget, half = read_ages(LOCK)
    assert (gadget.name, gadget.version) == ("gadget", "1.5")
    assert gadget.newest == datetime(2026, 11, 20, 3, 4, 5, 678000, tzinfo=UTC)
    assert gadget.first == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (half.name, half.newest) == ("half", None)


def test_a_cutoff_comes_into_a_lock_and_out_of_it_again() -> None:
    for lock in (LOCK, LOCK.replace('[options]\nprerelease-mode = "explicit"\n\n', "")):
        cut = with_cutoff(lock, "2026-11-22T00:00:00Z", ["a.b", "half"])
        assert 'exclude-newer = "2026-11-22T00:00:00Z"' in cut
        assert '[options.exclude-newer-package]\n"a.b" = false\n"half" = false\n\n[[package]]\nname = "gadget"' in cut
        assert without_cutoff(cut).replace("[options]\n\n", "") == lock
    assert parse_registry(LOCK) == "https://index.example/simple"
    assert parse_registry("version = 1\n") is None


@pytest.mark.proves("plugins-disguise-refused")
@pytest.mark.parametrize(
    ("old", "new", "days", "far"),
    [
        ("1.0", "1.9", 10, False),
        ("1.9", "2.0", 10, True),
        ("0.1.3", "0.1.9", 10, False),
        ("0.1.3", "0.5.3", 10, True),
        ("0.11.0", "3.3.0", 10, True),
        ("1.0", "1.1", 729, False),
        ("1.0", "1.1", 731, True),
        ("9.0", "1!1.0", 10, True),
    ],
)
def test_how_far_back_is_too_far(old: str, new: str, days: int, far: bool) -> None:
    chosen = Offer(version=old, uploaded=NOW - timedelta(days=days))
    newest = Offer(version=new, uploaded=NOW)
    assert is_far_back(chosen, newest) is far
    unknown = Offer(version=new, uploaded=None)
    assert is_far_back(chosen, unknown) is (far and days == 10)


@pytest.mark.proves("plugins-disguise-refused")
def test_the_newest_release_is_one_that_could_be_meant() -> None:
    offers = [
        Offer(version="1.0", uploaded=NOW - timedelta(days=900)),
        Offer(version="1.2", uploaded=NOW - timedelta(days=9)),
        Offer(version="1.3", uploaded=NOW - timedelta(days=3)),
        Offer(version="2.0a1", uploaded=NOW - timedelta(days=9)),
        Offer(version="3.0", uploaded=NOW - timedelta(days=9), requires_python=">=3.99"),
        Offer(version="not-a-version", uploaded=None),
        Offer(version="4.0", uploaded=None, requires_python="nonsense"),
    ]

    def newest(specifier: str, *, before: datetime | None = NOW - timedelta(days=7), pre: bool = False) -> str | None:
        found = find_newest(offers, SpecifierSet(specifier), "3.13.1", before=before, prereleases=pre)
        return None if found is None else found.version

    assert newest("") == "1.2"
    assert newest("", before=None) == "1.3"
    assert newest("", pre=True) == "2.0a1"
    assert newest("<1.2") == "1.0"
    assert newest(">5") is None


def test_which_requirements_name_one_version() -> None:
    assert exact_pins(["A_b==1.0", "c==1.*", "d>=1", "e===2", "f==1,!=2", "g"]) == {"a-b": "1.0", "e": "2"}
