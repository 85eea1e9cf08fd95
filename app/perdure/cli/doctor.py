"""`perdure doctor`: the app's own view of itself, which ends with one line of PM's.

Owns: what is looked at, and in which words. Does not own: repairing, or PM's view (`perdure pm doctor`). Keeps:
app-doctor-always-answers: a boot.json that is missing or invalid is a finding like any other.
"""

from collections.abc import Mapping, Sequence

from perdure.cli.output import Answer, columns, printable
from perdure.cli.session import Session
from perdure.domain.boot import Boot
from perdure.domain.errors import (
    EXIT_DONE,
    EXIT_FOUND,
    BootInvalid,
    BootMissing,
    SettingsInvalid,
    StoreUnavailable,
)
from perdure.domain.finding import Finding
from perdure.domain.host import Host
from perdure.domain.json_value import JsonValue
from perdure.domain.layers import Layer, layers_to_json
from perdure.domain.outcome import Status
from perdure.installation import Installation
from perdure.plugin_manager import PluginManager
from perdure.pm_link import PmAnswer, ask_pm
from perdure_compat import uses

PM_SECONDS = 10.0
"""How long PM may take to say how it is; it usually takes a tenth of a second."""


def diagnose(session: Session) -> Answer:
    """Return what this process runs from, its plugins, PM's line, and every finding."""
    installation = session.installation
    host = installation.host()
    boot, boot_words, findings = _look_at_boot(installation)
    manager = session.load(boot)
    manager.tools()
    reported = manager.findings()
    findings += [finding for _, finding in reported]
    findings += _plugin_findings(manager, installation)
    layers, unfit = _look_at_layers(session)
    findings += unfit
    findings += _look_at_approvals(session)
    pm = ask_pm(installation, session.environ, PM_SECONDS)
    # An app outside a generation has no PM that should be there.
    if installation.generation is not None and pm.status != "ok":
        findings.append(Finding(code="pm-unavailable", summary=f"PM: {pm.line}", hint=_pm_hint(installation, pm)))
    loaded: list[JsonValue] = [state.source.name for state in manager.states if state.loaded]
    moved = _moved_names(pm)
    return Answer(
        data={
            "version": host.version,
            "python": {"version": host.python, "executable": str(host.executable)},
            "generation": host.generation,
            "home": None if host.home is None else str(host.home),
            "safe_mode": session.safe_mode,
            "boot": {"path": _text(installation.boot_path), "state": boot_words},
            "plugins": {"loaded": loaded, "failures": [failure.to_json() for failure in manager.failures]},
            "pm": {"status": pm.status, "line": pm.line, "data": pm.data},
            "moved_names": [*moved],
            "layers": layers_to_json(layers),
            "findings": [finding.to_json() for finding in findings],
        },
        text=_render(session, host, boot_words, manager, moved, layers, findings, pm),
        exit_code=EXIT_FOUND if findings else EXIT_DONE,
    )


def _look_at_boot(installation: Installation) -> tuple[Boot | None, str, list[Finding]]:
    try:
        boot = installation.load_boot()
    except (BootMissing, BootInvalid) as error:
        finding = Finding(code=error.code, summary=error.summary, hint=error.hint, context=error.context)
        return None, "missing" if isinstance(error, BootMissing) else "invalid", [finding]
    if boot is None or installation.generation is None:
        return None, "none", []
    host = installation.host()
    named, actual = (boot.host, boot.host_version, boot.generation), ("perdure", host.version, host.generation)
    if named == actual:
        return boot, "ok", []
    summary = (
        f"{installation.boot_path} is for {boot.host} {boot.host_version} in generation {boot.generation}, "
        f"and this is perdure {host.version} in {host.generation}"
    )
    return boot, "mismatch", [Finding(code="boot-mismatch", summary=summary, hint=installation.pm_command("install"))]


def _look_at_layers(session: Session) -> tuple[tuple[Layer, ...], list[Finding]]:
    """Return which layers are on, and what is wrong with the profile's own word on them; a jail may well be missing."""
    # Imported here: the guard takes longer than the rest of this command.
    from perdure.cli.guard import make_guard
    from perdure.cli.jailing import layers_here

    try:
        layers, gap = layers_here(session, make_guard(session.installation))
    except SettingsInvalid as error:
        return (), [Finding(code=error.code, summary=error.summary, hint=error.hint, context=error.context)]
    if gap is None:
        return layers, []
    summary = f"the jail is not whole: {gap.text}"
    return layers, [Finding(code="jail-not-whole", summary=summary, hint=gap.hint, context={"paths": list(gap.paths)})]


def _look_at_approvals(session: Session) -> list[Finding]:
    """Return why what needs an approval is refused; where nothing was ever asked there is no file."""
    from perdure.cli.approving import store_of, way_out

    try:
        with store_of(session, make=False) as store:
            if store is not None:
                store.entries(status=Status.PENDING)
                store.grants()
    except StoreUnavailable as error:
        summary = f"what needs an approval is refused, and no grant counts that is kept there: {error.summary}"
        return [Finding(code=error.code, summary=summary, hint=way_out(session, error), context=error.context)]
    return []


def _plugin_findings(manager: PluginManager, installation: Installation) -> list[Finding]:
    hint = installation.app_command("plugins")
    return [
        Finding(code="plugin-failed", summary=str(failure), hint=failure.hint or hint, context=failure.to_json())
        for failure in manager.failures
    ]


def _pm_hint(installation: Installation, pm: PmAnswer) -> str:
    # Where PM is there and does not answer, its own words say more than ours could.
    return installation.pm_command("status") if pm.status != "absent" else installation.pm_command()


def _moved_names(pm: PmAnswer) -> list[str]:
    """Return which lines use names that moved: what PM saw in the plugins' files, then what this process saw beyond."""
    generation = pm.data.get("generation") if isinstance(pm.data, Mapping) else None
    recorded = generation.get("moved_names") if isinstance(generation, Mapping) else None
    known = [use for use in (recorded if isinstance(recorded, list) else ()) if isinstance(use, Mapping)]
    seen = [
        f"{use.module}: {use.file}:{use.line}: {use.old} is now {use.new}"
        for use in uses()
        if not any(use.file.endswith(f"/{each.get('file')}") and use.line == each.get("line") for each in known)
    ]
    return [
        *(f"{use.get('distribution')}: {use.get('file')}:{use.get('line')}: {use.get('text')}" for use in known),
        *seen,
    ]


def _render(
    session: Session,
    host: Host,
    boot_words: str,
    manager: PluginManager,
    moved: list[str],
    layers: Sequence[Layer],
    findings: list[Finding],
    pm: PmAnswer,
) -> str:
    loaded = [state.source.name for state in manager.states if state.loaded]
    rows = [
        ("perdure", host.version),
        ("python", f"{host.python} ({host.executable})"),
        ("generation", host.generation or "none: this process was not started from a generation"),
        ("home", _text(host.home) or "none"),
        ("boot.json", boot_words),
        *([("safe mode", "on: only built-in plugins are loaded")] if session.safe_mode else []),
        ("plugins", f"{len(loaded)} loaded ({', '.join(loaded)}), {_count(len(manager.failures), 'failure')}"),
        ("layers", ", ".join(layer.name for layer in layers if layer.active) or "unknown"),
        *(("not on", f"{layer.name}: {layer.why_not}") for layer in layers if not layer.active),
        *(("not whole", f"{layer.name}: {layer.gap}") for layer in layers if layer.gap is not None),
        *(("old name", line) for line in moved),
        ("findings", "none" if not findings else str(len(findings))),
    ]
    lines = [printable(line) for line in columns(rows)]
    for finding in findings:
        mark = session.output.styled("found:", "bold", "yellow")
        lines.append(f"{mark} {printable(finding.summary)}")
        if finding.hint is not None:
            lines.append(f"  try: {printable(finding.hint)}")
    return "\n".join([*lines, printable(f"pm: {pm.line}")])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text(value: object) -> str | None:
    return None if value is None else str(value)
