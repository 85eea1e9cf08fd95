"""What a person has to agree to: what an update brings in, builds of sources, addresses; and upgrades of the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.choice import SitOut
from perdure_pm.model.errors import BuildRefused, ConflictRefused, ConsentMissing, DirectUrlRefused, UsageFault
from perdure_pm.model.network import Network
from perdure_pm.ops.consent import read_consent, require_kept
from tests.pm.bench import Bench
from tests.pm.cli.test_terminal import Terminal
from tests.pm.fake_host import Workshop, prepare_home
from tests.pm.guest import extension, guest, init
from tests.pm.wheels import write_sdist, write_wheel
from tests.system.machine import fingerprint
from tests.system.mirror import Mirror, serve_mirror

pytestmark = pytest.mark.platforms("linux")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A wheelhouse with the application, what it needs, and a plugin."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    guest(folder, "1.0")
    write_wheel(folder, "sprocket", "1.0", entries="")
    extension(folder, "hat", "1.0")
    return folder


@pytest.fixture
def there(workshop: Workshop, wheels: Path, tmp_path: Path) -> Iterator[Bench]:
    """A home that hosts the application with its plugin."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path / "home")
    bench = Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=wheels))
    init(bench, "guest")
    bench.call("install")
    bench.add("hat")
    yield bench
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Mirror]:
    """A server that is no index of this home; its files are in `wheels` beside the home."""
    root = tmp_path / "elsewhere"
    (root / "wheels").mkdir(parents=True)
    served = serve_mirror(root)
    yield served
    served.stop()


def feathered(wheels: Path) -> None:
    """Have a newer hat that requires what was not there before."""
    write_wheel(wheels, "feather", "1.0", entries="")
    write_wheel(wheels, "hat", "2.0", requires=["guest", "feather"], entries="[guest]\nhat = hat:plugin\n")


def packages(bench: Bench) -> dict[str, str]:
    return {entry["name"]: entry["version"] for entry in bench.current.record["packages"]}


def state(bench: Bench) -> list[object]:
    return [*map(fingerprint, (bench.current.path, bench.layout.profile("default"))), *bench.generations]


@pytest.mark.proves("plugins-added-requirements-need-consent")
@pytest.mark.parametrize("words", [("upgrade",), ("plugin", "update"), ("plugin", "update", "hat")])
def test_an_update_that_adds_requirements_is_refused_where_nobody_can_be_asked(
    there: Bench, wheels: Path, words: tuple[str, ...]
) -> None:
    """Cases 67 and 112."""
    feathered(wheels)
    before = state(there)
    ended = there.pm(*words, "--json")
    assert ended.exit_code == 10
    (error,) = ended.envelope["errors"]
    assert (error["code"], error["state"]) == ("consent-missing", "unchanged")
    assert "feather 1.0" in error["summary"]
    assert str(error["hint"]).endswith(f"{' '.join(words[:2])} --yes")
    assert state(there) == before
    assert there.pm(*words, "--dry-run").exit_code == 0, "a plan asks for nothing"
    assert there.pm(*words, "--yes").exit_code == 0
    assert packages(there)["feather"] == "1.0"


@pytest.mark.proves("plugins-added-requirements-need-consent")
@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 10)])
def test_a_person_at_a_terminal_is_asked_by_name(there: Bench, wheels: Path, answer: str, exit_code: int) -> None:
    feathered(wheels)
    run = Terminal(there.command_line, ["upgrade"], there.settings())
    run.read_until("This brings in feather 1.0. Install it? [y/N]")
    run.type(answer)
    assert run.end() == exit_code
    assert ("feather" in packages(there)) is (exit_code == 0)


@pytest.mark.proves("plugins-added-requirements-need-consent")
def test_what_was_agreed_to_is_names_and_nothing_beyond_them(there: Bench, wheels: Path) -> None:
    feathered(wheels)
    with pytest.raises(ConsentMissing) as caught:
        there.call("upgrade", consent=["something-else"])
    assert caught.value.context["consent"] == ["feather"]
    there.call("upgrade", consent=["feather", "something-else"])
    assert packages(there)["hat"] == "2.0"
    assert read_consent({"consent": True}) is None
    assert read_consent({}) == frozenset()
    for nonsense in ("yes", [1], {"a": 1}):
        with pytest.raises(UsageFault):
            read_consent({"consent": nonsense})


@pytest.mark.proves("plugins-added-requirements-need-consent")
def test_what_a_person_wrote_and_what_the_hosts_lock_holds_is_no_question(there: Bench, wheels: Path) -> None:
    feathered(wheels)
    there.call("plugin-remove", names=["hat"])
    there.add("hat>=2")
    assert packages(there)["feather"] == "1.0", "who adds a plugin wants what it requires"
    there.call("plugin-remove", names=["hat"])
    there.config.write_text(there.config.read_text().replace("plugins: []", "plugins: [hat>1]"), encoding="utf-8")
    there.call("install")
    assert packages(there)["feather"] == "1.0", "and so does who writes it down"
    write_wheel(wheels, "girder", "1.0", entries="")
    write_wheel(
        wheels,
        "guest",
        "2.0",
        source="def main():\n    print('guest')\n",
        requires=["sprocket", "girder"],
        entries="[console_scripts]\nguest = guest:main\n",
    )
    there.call("upgrade")
    assert packages(there)["girder"] == "1.0"


@pytest.mark.proves("plugins-host-stays-locked")
def test_a_security_bump_in_the_hosts_lock_arrives_although_a_plugin_is_enabled(there: Bench, wheels: Path) -> None:
    """Case 69."""
    write_wheel(wheels, "sprocket", "1.0.1", entries="")
    there.add("hat>=1")
    assert packages(there)["sprocket"] == "1.0", "no change of plugins moves it"
    planned = there.pm("plan", "--upgrade", "--json").envelope["data"]["plan"]
    assert [(one["name"], one["to"]) for one in planned["packages"]] == [("sprocket", "1.0.1")]
    there.call("upgrade")
    assert (packages(there)["sprocket"], packages(there)["hat"]) == ("1.0.1", "1.0")


@pytest.mark.proves("plugins-never-silently-fewer")
def test_keep_plugins_refuses_where_one_that_runs_would_sit_out(there: Bench) -> None:
    sits = SitOut(entry="hat>=1", reason="it needs Python >=4")
    require_kept([sits], {"hat"}, keep=False)
    require_kept([sits], {"cap"}, keep=True)
    with pytest.raises(ConflictRefused, match="hat sits out: it needs Python >=4") as caught:
        require_kept([sits], {"hat"}, keep=True)
    assert caught.value.exit_code == 4
    assert there.pm("upgrade", "--keep-plugins", "--json").envelope["status"] == "noop"


@pytest.mark.proves("plugins-build-policy")
def test_a_source_is_built_only_where_its_name_or_the_policy_allows_it(there: Bench, wheels: Path) -> None:
    write_sdist(wheels, extension(wheels, "grown", "1.0"), backend="")
    before = state(there)
    for policy in ("ask", "never"):
        there.call("config-set", key="install.build-policy", value=policy)
        ended = there.pm("plugin", "add", "grown", "--json")
        assert ended.exit_code == 10
        (error,) = ended.envelope["errors"]
        assert error["code"] == "build-refused"
        assert str(error["hint"]).endswith("config set install.build grown")
        assert ("question" in error["context"]) is (policy == "ask")
    assert state(there) == before
    there.call("config-set", key="install.build-policy", value="allow")
    there.add("grown")
    assert packages(there)["grown"] == "1.0"


@pytest.mark.proves("plugins-build-policy")
@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 10)])
def test_at_a_terminal_a_build_is_asked_about_and_the_answer_is_kept(
    there: Bench, wheels: Path, answer: str, exit_code: int
) -> None:
    write_sdist(wheels, extension(wheels, "grown", "1.0"), backend="")
    run = Terminal(there.command_line, ["plugin", "add", "grown"], there.settings())
    run.read_until("Build grown all the same? [y/N]")
    run.type(answer)
    assert run.end() == exit_code
    assert ("grown" in packages(there)) is (exit_code == 0)
    assert ("grown" in there.layout.config.read_text(encoding="utf-8")) is (exit_code == 0)
    if exit_code == 0:
        there.add("hat>=1")
        assert packages(there)["grown"] == "1.0"


@pytest.mark.proves("plugins-build-policy")
def test_never_means_that_nobody_is_asked(there: Bench, wheels: Path) -> None:
    write_sdist(wheels, extension(wheels, "grown", "1.0"), backend="")
    there.call("config-set", key="install.build-policy", value="never")
    run = Terminal(there.command_line, ["plugin", "add", "grown"], there.settings())
    assert run.end() == 10
    assert "[y/N]" not in run.text
    with pytest.raises(BuildRefused):
        there.add("grown")


@pytest.mark.proves("plugins-direct-urls")
def test_an_address_among_a_plugins_requirements_is_refused_by_name_until_it_is_accepted(
    there: Bench, wheels: Path, elsewhere: Mirror, tmp_path: Path
) -> None:
    """Case 58."""
    address = elsewhere.url.replace("/simple", "/wheels")
    far = f"{address}/far-3.0-py3-none-any.whl"
    near = f"{address}/near-4.0-py3-none-any.whl"
    write_wheel(tmp_path / "elsewhere" / "wheels", "far", "3.0", entries="")
    write_wheel(tmp_path / "elsewhere" / "wheels", "near", "4.0", requires=[f"far @ {far}"], entries="")
    extension(wheels, "linked", "1.0", needs=f"near @ {near}")
    write_wheel(wheels, "carrier", "1.0", requires=["linked"], entries="")
    before = state(there)
    with pytest.raises(DirectUrlRefused) as caught:
        there.add("carrier")
    assert caught.value.summary == f"linked 1.0 requires near from {near} and not from an index"
    assert caught.value.hint == "where you trust that address: perdure-pm config set install.direct-urls near"
    assert caught.value.exit_code == 10
    assert state(there) == before
    there.call("config-set", key="install.direct-urls", value="near")
    with pytest.raises(DirectUrlRefused, match=r"near 4\.0 requires far from"):
        there.add("carrier")
    there.call("config-set", key="install.direct-urls", value="near,far")
    there.add("carrier")
    assert {name: packages(there)[name] for name in ("near", "far")} == {"near": "4.0", "far": "3.0"}
    assert f"near @ {near}" in there.current.record["requirements"]
    there.add("hat>=1")
    assert packages(there)["near"] == "4.0"
    assert there.call("install").status == "noop"


@pytest.mark.proves("plugins-direct-urls")
def test_an_address_for_what_the_host_locked_is_never_accepted(
    there: Bench, wheels: Path, elsewhere: Mirror, tmp_path: Path
) -> None:
    write_wheel(tmp_path / "elsewhere" / "wheels", "sprocket", "1.0", source="changed = True\n", entries="")
    address = elsewhere.url.replace("/simple", "/wheels")
    extension(wheels, "linked", "1.0", needs=f"sprocket @ {address}/sprocket-1.0-py3-none-any.whl")
    there.call("config-set", key="install.direct-urls", value="sprocket")
    with pytest.raises((DirectUrlRefused, ConflictRefused)) as caught:
        there.add("linked")
    assert "sprocket" in caught.value.summary
    assert "linked" not in packages(there)


@pytest.mark.proves("plugins-direct-urls")
def test_an_address_on_this_machine_is_never_accepted(there: Bench, wheels: Path, tmp_path: Path) -> None:
    near = write_wheel(tmp_path, "near", "4.0", entries="")
    extension(wheels, "linked", "1.0", needs=f"near @ {near.as_uri()}")
    there.call("config-set", key="install.direct-urls", value="near")
    with pytest.raises(DirectUrlRefused, match="an address on this machine is none"):
        there.add("linked")


@pytest.mark.proves("plugins-direct-urls")
def test_an_address_that_a_plugin_of_ones_own_requires_is_asked_about_too(
    there: Bench, elsewhere: Mirror, tmp_path: Path
) -> None:
    """To name a directory or a file is consent to that one alone; and nobody is asked at an address before."""
    address = elsewhere.url.replace("/simple", "/wheels")
    far, near = (f"{address}/{name}-1.0-py3-none-any.whl" for name in ("far", "near"))
    write_wheel(tmp_path / "elsewhere" / "wheels", "far", "1.0", entries="")
    own = write_wheel(tmp_path, "own", "1.0", requires=["guest", f"near @ {near}"])
    before = state(there)
    with pytest.raises(DirectUrlRefused) as caught:
        there.add(str(own))  # near is not there: it would be seen that anybody asked
    assert caught.value.summary == f"own 1.0 requires near from {near} and not from an index"
    assert caught.value.hint == "where you trust that address: perdure-pm config set install.direct-urls near"
    write_wheel(tmp_path / "elsewhere" / "wheels", "near", "1.0", requires=[f"far @ {far}"], entries="")
    there.call("config-set", key="install.direct-urls", value="near")
    with pytest.raises(DirectUrlRefused, match=r"near 1\.0 requires far from") as caught:
        there.add(str(own))
    assert caught.value.hint == "where you trust that address: perdure-pm config set install.direct-urls far,near"
    assert state(there)[:1] == before[:1]
    there.call("config-set", key="install.direct-urls", value="near,far")
    there.add(str(own))
    assert {name: packages(there)[name] for name in ("near", "far")} == {"near": "1.0", "far": "1.0"}
    there.add("hat>=1")
    assert there.call("install").status == "noop"


@pytest.mark.proves("plugins-direct-urls")
@pytest.mark.parametrize(
    ("needed", "why"),
    [
        ("near @ file:///nowhere/near-1.0-py3-none-any.whl", "an address on this machine is none"),
        ("sprocket @ https://127.0.0.1:1/sprocket-1.0-py3-none-any.whl", "the host's lock decides about sprocket"),
    ],
)
def test_what_a_plugin_of_ones_own_may_never_require(there: Bench, tmp_path: Path, needed: str, why: str) -> None:
    own = write_wheel(tmp_path, "own", "1.0", requires=[needed])
    there.call("config-set", key="install.direct-urls", value="near,sprocket")
    with pytest.raises(DirectUrlRefused, match=why):
        there.add(str(own))


def test_an_address_of_an_extra_counts_where_the_extra_is_wanted(there: Bench, tmp_path: Path) -> None:
    needed = "near @ https://127.0.0.1:1/near-1.0-py3-none-any.whl ; extra == 'more'"
    own = write_wheel(tmp_path, "own", "1.0", requires=[needed], metadata=["Provides-Extra: more"])
    there.add(str(own))
    assert "near" not in packages(there)
    with pytest.raises(DirectUrlRefused, match="requires near from"):
        there.add(f"own[more] @ {own}")
