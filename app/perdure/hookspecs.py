"""The hooks that a plugin of the app may implement.

Owns: their names, arguments and promises; `docs/reference/plugin-api.md` is made from these docstrings. Does not own:
the values they carry (domain) or the order and isolation of calls (plugin_manager).

Every hook is called on every plugin that implements it: built-in plugins first, then those of boot.json in its order.
An implementation may leave out arguments that it does not need. What raises or returns something else is recorded as
that plugin's failure, and the others run. Wrappers, `tryfirst` and `trylast` are refused: the order is the
configuration's to choose.
"""

from collections.abc import Mapping, Sequence

import pluggy

from perdure.domain.assessment import Assessment, AssessmentRequest
from perdure.domain.backend import Backend
from perdure.domain.finding import Finding
from perdure.domain.host import Host
from perdure.domain.json_value import JsonValue
from perdure.domain.tool import Tool

hookspec = pluggy.HookspecMarker("perdure")


@hookspec
def configure(host: Host, settings: Mapping[str, JsonValue]) -> None:
    """Take the settings that a person gave this plugin.

    Called once per process, right after the plugin was loaded and before any other of its hooks. A plugin whose
    settings do not fit the schema in its plugin.yaml is not loaded at all, so what comes here fits; without anything
    set it is empty: defaults in a schema are for people. What raises leaves the plugin out.

    Args:
        host: the process.
        settings: what stands under `plugins:` and the distribution's name in the profile's app.yaml.
    """


@hookspec
def tools(host: Host) -> Sequence[Tool] | None:
    """Return the tools that this plugin offers.

    Called once per process, before the first tool is listed or run, so it must be quick: import what a tool needs when
    the tool runs. A name that an earlier plugin already offers is refused, and the earlier one stays.

    Args:
        host: the process that asks.

    Returns:
        The tools, in the order in which they are listed; None or an empty list for none.
    """


@hookspec
def backends(host: Host) -> Sequence[Backend] | None:
    """Return the places where this plugin can have commands run.

    Called when a command is to run somewhere that app.yaml does not name. A name that app.yaml or an earlier plugin has
    is theirs. What a backend says of its isolation relaxes classification alone; what raises counts as no.

    Args:
        host: the process that asks.

    Returns:
        The backends; None or an empty list for none.
    """


@hookspec
def findings(host: Host) -> Sequence[Finding] | None:
    """Return what `perdure doctor` should report about this plugin's affairs.

    Called by doctor only. It looks and changes nothing, and it uses no network.

    Args:
        host: the process that asks.

    Returns:
        One finding for each deviation; None or an empty list when all is well.
    """


@hookspec
def assess(host: Host, request: AssessmentRequest) -> Assessment | None:
    """Say something about what an agent wants to do, before a person is asked.

    Called only for plugins that the profile names under `approvals.assessors.plugins`, and only for what classification
    asks about: never for what is refused, or what a rule or the floor wants a person for. It may refuse, see a higher
    risk, or say yes for this once, which counts where the operator set `approvals.assessors.approve`. What raises,
    takes longer than `approvals.assessors.seconds`, or returns anything else leaves the question to a person.

    Args:
        host: the process that asks.
        request: what is asked about; secrets in it are masked.

    Returns:
        The assessment; None for no opinion.
    """
