"""The host changes, and the profiles beside this one: kept from it where one cannot be read, and told who lags."""

from __future__ import annotations

import json

import pytest

from perdure_pm.model.errors import ConfigInvalid
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Bench
from tests.pm.plugin_states import running

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("profiles-unreadable-refuses")
@pytest.mark.parametrize("fault", ["not a list", "not YAML", "not UTF-8", "a directory"])
def test_an_unreadable_profile_keeps_the_host_from_changing_and_nothing_else(bench: Bench, fault: str) -> None:
    """Case 64."""
    other = bench.context(profile="other")
    bench.call("plugin-add", other, requirements=["gadget"])
    path = bench.layout.profile_config("other")
    good = path.read_bytes()
    path.unlink()
    if fault == "a directory":
        path.mkdir()
    else:
        texts = {"not a list": b"plugins: gadget\n", "not YAML": b"plugins: [gadget\n", "not UTF-8": b"plugins: \xff\n"}
        path.write_bytes(texts[fault])
    newer = str(bench.workshop.newer_checkout)
    before = (bench.current.identity, load_pointer(bench.layout, "other"), bench.generations)
    stages: list[str] = []
    with pytest.raises(ConfigInvalid) as caught:
        bench.call("upgrade", bench.context(on_stage=stages.append), checkout=newer)
    assert "the host is not changed while the profile other cannot be read" in caught.value.summary
    assert "profiles/other/config.yaml" in f"{caught.value.summary} {caught.value.hint}"
    assert "build" not in stages
    assert (bench.current.identity, load_pointer(bench.layout, "other"), bench.generations) == before
    # What concerns this profile alone goes on, and the other one runs what it ran.
    bench.call("plugin-add", requirements=["part-1"])
    assert running(bench, "other") == ["fakehost-clock", "gadget"]
    path.rmdir() if fault == "a directory" else path.unlink()
    path.write_bytes(good)
    assert bench.call("upgrade", checkout=newer).status == "ok"


@pytest.mark.proves("profiles-lag-told")
def test_after_a_change_of_the_host_a_profile_that_did_not_follow_is_named_until_it_does(bench: Bench) -> None:
    bench.call("plugin-add", bench.context(profile="other"), requirements=["gadget"])
    said = "the profile other still runs fakehost 0.1.0: "
    newer = ["--checkout", str(bench.workshop.newer_checkout)]
    assert bench.pm("upgrade", *newer).exit_code == 0
    for words in (["label", "good"], ["plugin", "add", "part-1"]):
        assert said in bench.pm(*words).err
    (line,) = [line for line in bench.receipts("plugin-add")[-1].obligations if line.startswith(said)]
    assert running(bench, "other") == ["fakehost-clock", "gadget"]
    ended = bench.pm(*line.rpartition("perdure-pm ")[2].split())
    assert (ended.exit_code, said in ended.err) == (0, False), ended.err
    assert json.loads(bench.start(variables={"PERDURE_PROFILE": "other"}).stdout)["version"] == "0.2.0"
    # Who goes back on purpose does not lag.
    assert bench.pm("rollback", "--profile", "other").exit_code == 0
    assert "still runs" not in bench.pm("label", "better").err
