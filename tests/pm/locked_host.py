"""A host that locked what plugins need too, and an index that moved on since; and what a refusal may not change.

Owns: what is in the index, the home with the host, and looking. Does not own: what is asked for or asserted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.network import Network
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, prepare_home
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint
from tests.system.mirror import Mirror, serve_mirror, write_index

BROKEN = {
    "breaks": "def plugin():\n    return 1\n\nraise ValueError('out of order')\n",
    "exits": "import sys\nsys.exit(0)\n",
    "ends": "import os\nos._exit(0)\n",
    "hangs": "import time\ntime.sleep(1000)\n",
    "prints": "print('{}')\nplugin = 1\n",
    "forks": "import os\nos.fork()\nplugin = 1\n",
    "nameless": "other = 1\n",
}
"""Plugins that do at import what they must not."""


def write_shop(root: Path) -> None:
    """Have an index in `root`, in which sprocket moved on after the host locked it."""
    wheels = root / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "sprocket", "0.5")
    write_wheel(wheels, "sprocket", "1.0")
    write_wheel(wheels, "sprocket", "1.1")
    write_wheel(wheels, "sprocket", "2.0")
    write_wheel(wheels, "gadget", "1.0", requires=["sprocket"])
    write_wheel(wheels, "gadget", "1.5", requires=["sprocket"])
    write_wheel(wheels, "wrench", "1.0", requires=["sprocket>=2"])
    write_wheel(wheels, "ancient", "1.0", requires=["sprocket<1"])
    write_wheel(wheels, "far-new", "1.0", requires=["wrench"])
    write_wheel(wheels, "far-old", "1.0", requires=["ancient<2"])
    write_wheel(wheels, "choosy", "1.0", requires=["thread>=2"])
    write_wheel(wheels, "choosy", "1.1", requires=["thread<2"])
    for number in range(29):
        write_wheel(wheels, f"part-{number}", "1.0")
    write_wheel(wheels, "left", "1.0", requires=["thread<2"])
    write_wheel(wheels, "right", "1.0", requires=["thread>=2"])
    write_wheel(wheels, "thread", "1.0")
    write_wheel(wheels, "thread", "2.0")
    write_wheel(wheels, "pinion", "1.0")
    write_wheel(wheels, "pinion", "1.5")
    write_wheel(wheels, "cord", "1.0")
    write_wheel(wheels, "needs-newer-host", "1.0", requires=["fakehost>=9"])
    write_wheel(wheels, "needs-own", "1.0", requires=["perdure-evil"])
    write_wheel(wheels, "perdure-evil", "1.0")
    write_wheel(wheels, "fakehost", "9.0")
    write_wheel(wheels, "Odd_Name.Here", "1.0", metadata=["Provides-Extra: more"], requires=['thread; extra == "more"'])
    write_wheel(wheels, "marked", "1.0", requires=['thread; python_version < "3"', 'absent; sys_platform == "none"'])
    write_wheel(wheels, "future", "1.0", metadata=["Requires-Python: >=4"])
    write_wheel(wheels, "raises", "1.0", source="raise SystemExit(0)\n")
    for name, source in BROKEN.items():
        write_wheel(wheels, name, "1.0", source=source)
    for name, text in (("owner", "1"), ("rival", "2"), ("twin", "1")):
        write_wheel(wheels, name, "1.0", more={"shared/__init__.py": f"x = {text}\n"})
    write_wheel(wheels, "Shouter", "1.0", entries="[perdure]\nLOUD = shouter:plugin\nLoud = shouter:plugin\n")
    write_wheel(wheels, "garbled", "1.0", entries="[perdure\nnonsense\n")
    write_wheel(wheels, "twice", "1.0", entries="[perdure]\na = twice:plugin\na = twice:plugin\n")
    write_wheel(wheels, "extras-entry", "1.0", entries="[perdure]\nextra = extras_entry:plugin [more]\n")
    write_wheel(wheels, "library", "1.0", entries="")
    write_index(wheels, root / "simple")


def write_locked_checkout(workshop: Workshop, served: Mirror, folder: Path) -> Path:
    """Have the checkout of a host that locked sprocket 1.0 below `folder`, with extras, and return it."""
    checkout = folder / "checkout"
    shutil.copytree(workshop.checkout, checkout)
    project = checkout / "pyproject.toml"
    project.write_text(
        project.read_text().replace(
            "[project.scripts]",
            'dependencies = ["sprocket<2"]\n'
            '[project.optional-dependencies]\ngear = ["pinion<1.5"]\nKnot_Work = ["cord"]\n[project.scripts]',
        )
    )
    command = [str(workshop.uv), "lock", "--no-config", "--project", str(checkout), "--default-index", served.url]
    command += ["--python", str(running_interpreter().path), "--upgrade-package", "sprocket==1.0"]
    environment = {"PATH": os.defpath, "HOME": str(folder), "UV_CACHE_DIR": str(folder / "cache")}
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return checkout


def install_with_lock(workshop: Workshop, shop: Path, folder: Path) -> Layout:
    """Have a home below `folder` with a host that locked sprocket 1.0, and return its paths."""
    served = serve_mirror(shop)
    checkout = write_locked_checkout(workshop, served, folder)
    layout = prepare_home(workshop, LocalFilesystem(), folder / "home")
    bench = Bench(workshop=workshop, layout=layout, network=Network(index_url=served.url))
    bench.call("install", checkout=str(checkout))
    served.stop()
    return layout


def asked_projects(index: Mirror) -> set[str]:
    """Return the projects that a served index was asked for."""
    return {found[1] for path in index.asked if (found := re.fullmatch(r"/simple/([^/]+)/?", path))}


def packages(bench: Bench) -> dict[str, str]:
    """Return the version of each package of the generation that runs."""
    return {entry["name"]: entry["version"] for entry in bench.current.record["packages"]}


def clashes_of(refusal: PerdureError) -> list[dict[str, Any]]:
    """Return the clashes that a refusal explains."""
    found = refusal.context["clashes"]
    assert isinstance(found, list)
    return found


def what_counts(bench: Bench) -> list[object]:
    """Return what a refusal may not change: what runs, what is wanted, and that there is nothing new."""
    folders = (bench.current.path, bench.layout.profile("default"), bench.layout.bin)
    return [
        *map(fingerprint, folders),
        hash_file(bench.layout.config),
        *bench.generations,
        bench.current.identity,
        str([path.name for path in bench.layout.scratch.iterdir() if path.name.startswith("resolve-")]),
    ]
