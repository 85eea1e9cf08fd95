"""What a wheelhouse needs, read off requirements and locks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from perdure_pm.model.errors import PlatformUnsupported
from perdure_pm.model.target import parse_target
from perdure_pm.ops.wheelhouse import Needs
from tests.pm.wheels import write_wheel

DIGESTS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("pure", "mac", "linux", "sdist", "other")}
LOCK = f"""
version = 1

[[package]]
name = "one"
version = "1.0"
source = {{ registry = "https://127.0.0.1/simple" }}
sdist = {{ url = "https://127.0.0.1/one-1.0.tar.gz", hash = "sha256:{DIGESTS["sdist"]}", size = 1 }}
wheels = [
    {{ url = "https://127.0.0.1/one-1.0-py3-none-any.whl", hash = "sha256:{DIGESTS["pure"]}", size = 7 }},
    {{ url = "https://host/one-1.0-cp312-cp312-macosx_11_0_arm64.whl", hash = "sha256:{DIGESTS["mac"]}", size = 9 }},
]

[[package]]
name = "two"
version = "2.0%2Blocal"
source = {{ registry = "https://127.0.0.1/simple" }}
wheels = [
    {{ url = "https://h/two-2.0%2Blocal-cp312-cp312-manylinux_2_17_x86_64.whl", hash = "sha256:{DIGESTS["linux"]}" }},
]

[[package]]
name = "only-source"
version = "3.0"
source = {{ registry = "https://127.0.0.1/simple" }}
sdist = {{ url = "https://127.0.0.1/only-source-3.0.tar.gz", hash = "sha256:{DIGESTS["sdist"]}", size = 1 }}
""".replace('version = "2.0%2Blocal"', 'version = "2.0+local"')

REQUIREMENTS = f"""\
one==1.0 \\
    --hash=sha256:{DIGESTS["sdist"]} \\
    --hash=sha256:{DIGESTS["pure"]} \\
    --hash=sha256:{DIGESTS["mac"]}
two==2.0+local ; sys_platform == 'linux' \\
    --hash=sha256:{DIGESTS["linux"]}
"""


def needs(target: str, requirements: str, *, lock: str = LOCK, wheelhouse: Path | None = None) -> Needs:
    found = Needs(target=parse_target(target, "3.12"))
    found.add_locked(requirements, ["version = 1\n", lock], "host", wheelhouse)
    return found


@pytest.mark.proves("wheelhouse-whole")
def test_each_target_gets_its_own_wheels_of_what_counts_there() -> None:
    on_mac = needs("darwin-arm64", REQUIREMENTS)
    on_mac.require_all()
    assert list(on_mac.files) == ["one-1.0-cp312-cp312-macosx_11_0_arm64.whl"]
    on_linux = needs("linux-x86_64", REQUIREMENTS)
    on_linux.require_all()
    assert list(on_linux.files) == ["one-1.0-py3-none-any.whl", "two-2.0+local-cp312-cp312-manylinux_2_17_x86_64.whl"]
    artefact, distribution, purposes = on_linux.files["one-1.0-py3-none-any.whl"]
    assert (artefact.sha256, artefact.size, distribution, purposes) == (DIGESTS["pure"], 7, "one", {"host"})
    on_linux.add_locked(REQUIREMENTS, [LOCK], "pm", None)
    assert purposes == {"host", "pm"}


@pytest.mark.proves("wheelhouse-whole")
def test_everything_without_a_wheel_is_named_at_once() -> None:
    found = needs(
        "linux-aarch64",
        f"{REQUIREMENTS}only-source==3.0 --hash=sha256:{DIGESTS['sdist']}\n"
        f"absent==4.0 --hash=sha256:{DIGESTS['other']}\n"
        f"near @ https://127.0.0.1/near-1.0-py3-none-any.whl --hash=sha256:{DIGESTS['other']}\n"
        f"elsewhere==5.0 ; sys_platform == 'win32' --hash=sha256:{DIGESTS['other']}\n",
    )
    with pytest.raises(PlatformUnsupported) as caught:
        found.require_all()
    assert caught.value.context["unavailable"] == [
        "two 2.0+local",
        "only-source 3.0",
        "absent 4.0",
        "near (it comes from an address, which no wheelhouse stands for)",
    ]
    assert "no wheel for linux-aarch64 and Python 3.12: two 2.0+local, only-source 3.0" in caught.value.summary


@pytest.mark.proves("wheelhouse-whole")
def test_a_wheel_that_the_requirement_does_not_allow_is_none() -> None:
    found = needs("linux-x86_64", f"one==1.0 --hash=sha256:{DIGESTS['other']}\n")
    assert found.unavailable == ["one 1.0"]


@pytest.mark.proves("wheelhouse-whole")
def test_what_was_locked_from_a_directory_has_the_hash_of_the_file_that_lies_there_now(tmp_path: Path) -> None:
    """The lock has no hash of it; the requirement has that of what was installed."""
    wheel = write_wheel(tmp_path, "gadget", "1.0")
    lock = (
        f'version = 1\n[[package]]\nname = "gadget"\nversion = "1.0"\nsource = {{ registry = "{tmp_path}" }}\n'
        f'wheels = [{{ path = "{wheel.name}" }}]\n'
    )
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    found = needs("linux-x86_64", f"gadget==1.0 --hash=sha256:{digest}\n", lock=lock, wheelhouse=tmp_path)
    assert found.files[wheel.name][0].sha256 == digest
    wheel.write_bytes(wheel.read_bytes() + b"x")
    changed = needs("linux-x86_64", f"gadget==1.0 --hash=sha256:{digest}\n", lock=lock, wheelhouse=tmp_path)
    assert changed.unavailable == ["gadget 1.0"]
    (without,) = needs("linux-x86_64", f"gadget==1.0 --hash=sha256:{digest}\n", lock=lock).unavailable
    assert without == "gadget 1.0 (it came from a directory of wheels, which --wheelhouse names)"
