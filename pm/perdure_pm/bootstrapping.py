"""What bootstrap.py does: PM's runtime from nothing, then the app, the tests, or what a launcher could not start.

Owns: the verbs up, activate, test, lint, runtime, pm and rescue. Does not own: their options (bootstrap_options), how
they speak (adapters.plain_reporter), building (ops.runtime_build), what a payload is (ops.payload), installing (the
worker), the checks themselves (.ci/lint.py).

Standard library only, Python 3.9: nothing of PM is installed yet.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from perdure_pm.adapters import streams
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.adapters.mutex import held
from perdure_pm.adapters.plain_reporter import PlainReporter, write_answer
from perdure_pm.adapters.processes import Completed, boot_id, call, keep_owner_bits, process_start, replace_process, run
from perdure_pm.adapters.uv import Uv
from perdure_pm.bootstrap_options import find_places, heed, make_parser, option_name, split_words
from perdure_pm.client import settle
from perdure_pm.model import settings
from perdure_pm.model.errors import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_TERMINATED,
    BuildFailed,
    LazyInstallRefused,
    PerdureError,
    RescuesExhausted,
    UsageFault,
)
from perdure_pm.model.network import Network
from perdure_pm.ops import payload as payloads
from perdure_pm.ops import test_environments
from perdure_pm.ops.interpreters import choose_interpreter, find_interpreter
from perdure_pm.ops.runtime import (
    Runtime,
    find_earlier_runtime,
    is_current,
    load_failed_rescues,
    load_runtime,
    note_failed_rescue,
    select_runtime,
)
from perdure_pm.ops.runtime_build import build_runtime, find_built_runtime, find_usable_runtime
from perdure_pm.ops.tool_uv import ensure_uv
from perdure_pm.store import receipts
from perdure_pm.store.home import check_written, resolve_home
from perdure_pm.store.layout import Layout, default_home
from perdure_pm.store.policy import lazy_allowed

MOST_RESCUES = 3
"""How often in a row PM's runtime is rebuilt unasked where that fails; then a person has to ask for it."""
INSTALL_SECONDS = 3600.0
TEST_SECONDS = 4 * 3600.0
EXPLICIT = (
    *(("install",), ("repair",), ("upgrade",), ("self", "rebuild"), ("self", "update"), ("python", "install")),
    *(("plugin", "add"), ("plugin", "update")),
)
"""The verbs by which a person asks for an install in so many words; what a launcher needs for any other is lazy."""
COUNTS = ("passed", "failed", "errors", "skipped")


class Terminated(BaseException):
    """SIGTERM arrived; a BaseException, so that children are ended on the way out."""


class Bootstrap:
    """One run of bootstrap.py: the home, the settings, and where the sources lie."""

    def __init__(self, options: argparse.Namespace) -> None:
        flags = {setting.name: getattr(options, option_name(setting), None) for setting in settings.SETTINGS}
        values = settings.resolve(settings.SETTINGS, flags, os.environ, {})
        home = values["home"]
        self.options = options
        self.layout = Layout(resolve_home(Path(str(home)) if home else default_home(os.environ)))
        self.network: Network = settings.network_of(values)
        self.python = str(values["python"]) if values["python"] else None
        # What a launcher was asked in front of a `--` counts for its rescue too.
        asked = options.arguments[: (*options.arguments, "--").index("--")] if options.verb == "rescue" else ()
        self.json = values["json"] is True or "--json" in asked
        self.no_lazy = values["no-lazy"] is True or "--no-lazy" in asked
        self.wait = values["no-wait"] is not True
        self.values = values
        self.source = Path(__file__).resolve().parent.parent.parent
        self.filesystem = LocalFilesystem()
        self.reporter = PlainReporter(events=values["events"] is True)

    # verbs

    def up(self) -> int:
        """Have the app installed and answering."""
        self._require_checkout()
        self._refuse_dry_run()
        check_written(self.layout)
        installed = self._install_app()
        if installed.returncode != 0 and not is_current(self.layout):
            installed = self._install_app()  # an uninstall that it waited for took PM's runtime away under it
        answer = _read_answer(installed, "install")
        if installed.returncode != 0:
            return self._finish(installed.returncode, answer["data"], answer["errors"])
        version = self._run([self.layout.bin / "perdure", "--version"], 60.0)
        if version.returncode != 0:
            raise BuildFailed("the app was installed but does not answer", context={"output": version.stderr[-4000:]})
        said = version.stdout.strip()
        data = {"home": str(self.layout.home), "answer": said, "install": answer["data"]}
        generation = answer["data"].get("generation")
        text = (
            f"{said} answers from generation {generation} in {self.layout.home}\n"
            f'to have it on your PATH: "{self.layout.bin / "perdure-pm"}" path\n'
        )
        return self._finish(0, data, [], text)

    def activate(self) -> int:
        """Have what a payload carries run in the home, built from the payload's own wheels and without a network."""
        self._refuse_dry_run()
        payload = payloads.load_payload(Path(os.path.abspath(self.options.payload)))
        check_written(self.layout)
        python = self.layout.home / str(payload.interpreter)
        if payload.interpreter is None or self.python is not None:
            asked = self.python and find_interpreter(self.layout, os.environ, self.python)
            python = payloads.require_python(payload, asked or running_interpreter())
        payloads.require_room(self.layout, payload)
        with held(self.layout, "activate", wait=self.wait, on_wait=self._tell_wait):
            payloads.require_room(self.layout, payload)
            payloads.unpack(self.layout, self.filesystem, self.reporter, payload)
        self.python, self.network = str(python), Network(wheelhouse=payload.wheelhouse, offline=True)
        self.values |= {"wheelhouse": str(payload.wheelhouse), "offline": True, "python": self.python}
        runtime = self._ensure_runtime()
        # From here on it is a home whose generations are gone, and whose records say what they were.
        built = self._run([runtime.python, "-I", runtime.entry, "repair", "--json"], INSTALL_SECONDS)
        answer = _read_answer(built, "repair")
        if built.returncode != 0:
            return self._finish(built.returncode, answer["data"], answer["errors"])
        self.filesystem.remove_tree(self.layout.activation)
        data = {"home": str(self.layout.home), "payload": str(payload.path), "seal": payload.seal, **answer["data"]}
        lines = [f"{one['profile']} runs generation {one['generation']}" for one in answer["data"]["rebuilt"]]
        text = "\n".join([f"{payload.path} is activated in {self.layout.home}", *lines])
        return self._finish(0, data, [], f'{text}\nto have it on your PATH: "{self.layout.bin / "perdure-pm"}" path\n')

    def test(self) -> int:
        """Run the test suite; the exit code is 0 only when every part passed and something ran."""
        checkout = self._require_checkout()
        pythons = self._test_pythons()
        only, more = list(self.options.only or ()), list(self.options.pytest_arguments or ())
        more += ["--slow"] if self.options.slow else []
        totals = dict.fromkeys(COUNTS, 0)
        status = 0
        parallel = [] if any(word.startswith("-n") for word in more) else ["-n", str(min(4, os.cpu_count() or 1))]
        runs = [
            (wanted.name, folders, options)
            for wanted in test_environments.TEST_ENVIRONMENTS
            for folders, options in ((wanted.tests, parallel), (wanted.alone, []))
        ]
        for name, folders, options in runs:
            chosen = [
                folder
                for folder in folders
                if (checkout / folder).is_dir() and (not only or folder in only or folder.rpartition("/")[2] in only)
            ]
            if not chosen:
                continue
            report = self.layout.test_environment(name) / "report.xml"
            report.unlink(missing_ok=True)
            command: list[str | Path] = [pythons[name], "-I", "-m", "pytest", *chosen, *options]
            ended = self._call([*command, "--junitxml", report, *more], checkout)
            counts = _read_counts(report)
            for count in COUNTS:
                totals[count] += counts[count]
            # 5: nothing was collected, which a filter makes usual in one of two environments
            status = status or (0 if ended == 5 else ended)
        ran = totals["passed"] + totals["failed"] + totals["errors"]
        failed = totals["failed"] + totals["errors"]
        text = f"total: {totals['passed']} passed, {failed} failed, {totals['skipped']} skipped"
        return streams.write_data(text, status or (0 if ran else 1))

    def lint(self) -> int:
        """Run every check that needs no test."""
        checkout = self._require_checkout()
        pythons = self._test_pythons()
        command: list[str | Path] = [pythons["app"], "-I", checkout / ".ci" / "lint.py", "--app-python", pythons["app"]]
        command += ["--pm-python", pythons["pm"], "--uv", self._uv_path()]
        return self._call([*command, *(["--fix"] if self.options.fix else [])], checkout)

    def pm(self) -> NoReturn:
        """Run PM's command line from this checkout's runtime, built first where it must be."""
        check_written(self.layout)
        self._hand_over(self._ensure_runtime(), self.options.arguments)

    def runtime(self) -> int:
        """Have a runtime of these sources built and sealed beside the selected one; `self update` selects it."""
        check_written(self.layout)
        with held(self.layout, "build of a runtime", wait=self.wait, on_wait=self._tell_wait):
            built = self._build_runtime()
        data = {"runtime": built.identity, "version": built.version, "python": built.record["inputs"]["python"]}
        return self._finish(0, data, [], f"PM {built.version} is built as {built.identity}\n")

    def rescue(self) -> NoReturn:
        """Have a runtime that runs for a launcher that cannot start PM's, then do what was asked."""
        check_written(self.layout)
        arguments = list(self.options.arguments)
        words = tuple(arguments[place] for place in find_places(arguments))
        if words[:2] == ("self", "rollback") and (earlier := find_earlier_runtime(self.layout)) is not None:
            self._hand_over(earlier, arguments)  # what goes back needs nothing of what is broken
        explicit = any(words[: len(verb)] == verb for verb in EXPLICIT)
        with held(self.layout, "rescue", wait=self.wait, on_wait=self._tell_wait):
            before = load_runtime(self.layout)
            refusal = None if explicit else self._find_refusal()
            try:
                runtime = self._mend_runtime(refusal)
            except PerdureError:
                if refusal is None and not explicit:
                    note_failed_rescue(self.layout, self.filesystem)
                raise
        if before is not None and before.record["seed"] != runtime.record["seed"]:
            settle(self.layout, runtime.identity, self._environment())
        self._hand_over(runtime, arguments)

    # steps

    def _install_app(self) -> Completed:
        """Run the install of the app from this checkout, in a runtime that is built first where it must be."""
        runtime = self._ensure_runtime()
        command: list[str | Path] = [runtime.python, "-I", runtime.entry]
        return self._run([*command, "install", "--checkout", self.source, "--json"], INSTALL_SECONDS)

    def _ensure_runtime(self) -> Runtime:
        found = find_usable_runtime(self.layout, source=self.source, python=self.python)
        if found is not None:
            return found
        with held(self.layout, "bootstrap", wait=self.wait, on_wait=self._tell_wait):
            found = find_usable_runtime(self.layout, source=self.source, python=self.python)
            return found or self._select(self._build_runtime())

    def _find_refusal(self) -> PerdureError | None:
        """Return why PM's runtime is not rebuilt where nobody asked for it, or None where it is."""
        hint = f'"{self.layout.bin / "perdure-pm"}" self rebuild'
        context = {"home": str(self.layout.home)}
        if not lazy_allowed(self.layout, os.environ, no_lazy=self.no_lazy):
            summary = "PM's runtime must be rebuilt before it can do that, and lazy installs are off"
            return LazyInstallRefused(summary, hint=hint, context=context)
        if load_failed_rescues(self.layout) >= MOST_RESCUES:
            summary = f"PM's runtime could not be rebuilt {MOST_RESCUES} times, and is not tried again unasked"
            return RescuesExhausted(summary, hint=hint, context=context, state="needs-recovery")
        return None

    def _mend_runtime(self, refusal: PerdureError | None) -> Runtime:
        """Return the selected runtime, rebuilt from this seed where it must be, else the one before it, selected.

        Raises:
            PerdureError: `refusal`, or why it cannot be rebuilt; and there is no other that could run.
        """
        damaged = load_runtime(self.layout)
        try:
            # Another process may have rebuilt it meanwhile; bytes are looked at, for sizes were no reason to come here.
            found = find_usable_runtime(self.layout, source=self.source, python=self.python, thorough=True)
            if found is not None:
                return found
            if refusal is not None:
                raise refusal
            return self._select(self._build_runtime())
        except PerdureError as fault:
            earlier = find_earlier_runtime(self.layout)
            data = {"from": damaged and damaged.identity, "runtime": earlier and earlier.identity}
            if earlier is not None or fault is refusal:
                self._leave_receipt(fault, data)
            if earlier is None:
                raise
            streams.write_talk(
                f"PM's runtime cannot be rebuilt: {fault.summary}\n"
                f"the one before it, PM {earlier.version} of {earlier.record.get('created')}, runs from now on"
            )
            return self._select(earlier)

    def _select(self, runtime: Runtime) -> Runtime:
        select_runtime(self.layout, self.filesystem, runtime)
        return runtime

    def _build_runtime(self) -> Runtime:
        """Return a sealed runtime of these sources: one that is there already, or a new one."""
        found = find_built_runtime(self.layout, source=self.source, python=self.python)
        if found is not None:
            return found
        try:
            return build_runtime(
                self.layout,
                self.filesystem,
                self.reporter,
                source=self.source,
                network=self.network,
                environ=os.environ,
                python=self.python,
            )
        finally:
            self.reporter.end()

    def _uv_path(self) -> Path:
        lock = self.source / "pm" / "uv.lock"
        return ensure_uv(self.layout, self.filesystem, self.reporter, lock=lock, network=self.network)

    def _test_pythons(self) -> dict[str, Path]:
        """Have the test environments, and return their interpreters by name."""
        check_written(self.layout)
        checkout = self._require_checkout()
        with held(self.layout, "test", wait=self.wait, on_wait=self._tell_wait):
            uv = Uv(self._uv_path(), self.layout, self.network, os.environ)
            interpreter = choose_interpreter(self.layout, self.filesystem, uv, self.reporter, os.environ, self.python)
            found = {}
            for wanted in test_environments.TEST_ENVIRONMENTS:
                inputs = test_environments.test_environment_inputs(wanted, checkout, interpreter)
                path = test_environments.find_test_environment(self.layout, wanted, inputs)
                if path is None:
                    self.reporter.progress("test", f"building the test environment {wanted.name}")
                    path = test_environments.build_test_environment(
                        uv, self.filesystem, self.layout, wanted, checkout, interpreter
                    )
                found[wanted.name] = path
            self.reporter.end()
            return found

    def _refuse_dry_run(self) -> None:
        if self.values["dry-run"] is True:
            hint = "unset PERDURE_DRY_RUN"
            raise UsageFault(f"{self.options.verb} has no dry run, and PERDURE_DRY_RUN is set", hint=hint)

    def _require_checkout(self) -> Path:
        if not (self.source / "pyproject.toml").is_file():
            raise UsageFault(
                f"{self.source} is a seed, which rebuilds PM but holds no app and no tests",
                hint="run this from a checkout of Perdure",
            )
        return self.source

    def _environment(self) -> dict[str, str]:
        """Return the environment for PM's own processes: the caller's, with every setting said as a variable."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        for setting in settings.SETTINGS:
            value = self.values.get(setting.name)
            if setting.scope != settings.FOREIGN and value not in {None, False}:
                environment[setting.variable] = "1" if value is True else str(value)
        environment["PERDURE_HOME"] = str(self.layout.home)
        return environment

    def _run(self, command: Sequence[str | Path], timeout: float) -> Completed:
        return run(
            command,
            environment=self._environment(),
            directory=self.layout.home,
            timeout=timeout,
            on_line=streams.write_talk,
        )

    def _call(self, command: Sequence[str | Path], directory: Path) -> int:
        """Run a command that speaks for itself, and return its exit code."""
        return call(command, {**self._environment(), "PERDURE_TEST_UV": str(self._uv_path())}, directory)

    def _hand_over(self, runtime: Runtime, arguments: Sequence[str]) -> NoReturn:
        environment = {**self._environment(), "PERDURE_RESCUED": "1"}
        replace_process([str(runtime.python), "-I", str(runtime.entry), *arguments], environment)

    def _tell_wait(self, holder: str) -> None:
        self.reporter.progress("mutex", f"waiting for another operation: {holder}")

    def _leave_receipt(self, error: PerdureError, data: dict[str, Any]) -> None:
        """Leave the one receipt of a rescue that could not be."""
        now = datetime.now(timezone.utc)
        writer = receipts.Writer(os.getpid(), boot_id(), process_start(os.getpid()))
        receipt = receipts.open_receipt(
            self.filesystem, self.layout, operation="rescue", correlation=os.urandom(16).hex(), writer=writer, now=now
        )
        status = "refused" if error.exit_code == EXIT_REFUSED else "failed"
        receipts.finish(self.filesystem, self.layout, receipt, status=status, data=data, error=error.to_json(), now=now)

    def _finish(self, exit_code: int, data: dict[str, Any], errors: list[dict[str, Any]], text: str = "") -> int:
        status = "ok" if exit_code == 0 else "refused" if exit_code == EXIT_REFUSED else "failed"
        return write_answer(self.options.verb, status, exit_code, data, errors, as_json=self.json, text=text)


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code."""
    streams.open_descriptors()
    keep_owner_bits()
    signal.signal(signal.SIGTERM, _terminate)
    as_json = "--json" in arguments or os.environ.get("PERDURE_JSON", "").lower() in settings.TRUE_WORDS
    verb = next((arguments[place] for place in find_places(arguments)), "")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold what the terminal's encoding does not
    try:
        own, rest = split_words(arguments)
        options = make_parser().parse_args(own)
        options.arguments = rest
        heed(rest if options.verb == "pm" else (), options)
        verb = options.verb
        bootstrap = Bootstrap(options)
        as_json = bootstrap.json
        verbs: dict[str, Callable[[], int]] = {
            "up": bootstrap.up,
            "activate": bootstrap.activate,
            "test": bootstrap.test,
            "lint": bootstrap.lint,
            "pm": bootstrap.pm,
            "runtime": bootstrap.runtime,
            "rescue": bootstrap.rescue,
        }
        return verbs[verb]()
    except PerdureError as error:
        status = "refused" if error.exit_code == EXIT_REFUSED else "failed"
        return write_answer(verb, status, error.exit_code, {}, [error.to_json()], as_json=as_json)
    except (KeyboardInterrupt, Terminated) as stop:
        exit_code = EXIT_INTERRUPTED if isinstance(stop, KeyboardInterrupt) else EXIT_TERMINATED
        name = "interrupted" if isinstance(stop, KeyboardInterrupt) else "terminated"
        fault = PerdureError(f"{name}; what was selected is unchanged", hint="run the same command again")
        return write_answer(verb, "failed", exit_code, {}, [{**fault.to_json(), "code": name}], as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the one catch-all of this entry point
        streams.write_talk(traceback.format_exc(), end="")
        fault = PerdureError(f"internal error: {type(error).__name__}: {error}")
        return write_answer(verb, "failed", EXIT_INTERNAL, {}, [fault.to_json()], as_json=as_json)


def _read_answer(ended: Completed, verb: str) -> dict[str, Any]:
    """Return the one object that PM's command line wrote."""
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise BuildFailed(
            f"perdure-pm {verb} ended with {ended.returncode} and no answer", context={"output": ended.stderr[-4000:]}
        ) from None
    return answer


def _read_counts(report: Path) -> dict[str, int]:
    """Return the counts of a JUnit report; zeros where there is none."""
    try:
        head = report.read_text(encoding="utf-8", errors="replace")[:4096]
    except OSError:
        return dict.fromkeys(COUNTS, 0)
    found = {name: int(count) for name, count in re.findall(r'\b(tests|errors|failures|skipped)="(\d+)"', head)}
    failed, errors, skipped = (found.get(name, 0) for name in ("failures", "errors", "skipped"))
    passed = found.get("tests", 0) - failed - errors - skipped
    return {"passed": passed, "failed": failed, "errors": errors, "skipped": skipped}


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated
