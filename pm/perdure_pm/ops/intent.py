"""Intent: what people want of a home and a profile, and keeping it in line with what was published.

Owns: reading both configuration files at one moment, refusing a commit when one changed since, and the write that
follows a commit, which is written down before it: a crash in between is finished by whatever runs next. Does not own:
the files' form (model.config, store.config). Keeps: intent-hand-edit-wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.model.choice import Choice, follow_generation
from perdure_pm.model.config import SCHEMA, HomeConfig, find_key, parse_home_config, parse_profile_config
from perdure_pm.model.errors import ConfigChanged, IntegrityFault
from perdure_pm.ops.context import Context
from perdure_pm.store.config import ConfigFile, is_lazy, load_file, plan_change, save_text, with_text
from perdure_pm.store.history import find_choice, load_history
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer, read_plain
from perdure_pm.store.policy import ABSENT, mirror_policy
from perdure_pm.store.recorded import read_source

MAX_BYTES = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Both files as they were at one moment, and what they say."""

    home_file: ConfigFile
    profile_file: ConfigFile
    home: HomeConfig
    plugins: tuple[str, ...] | None
    """The profile's plugins in load order; None where it does not say, which means the host's whole bundle."""
    disabled: tuple[str, ...] = ()
    """Which of them are left out, as they stand in the file."""

    @property
    def choice(self) -> Choice:
        """Both lists, the first one empty where the file does not say."""
        return Choice(plugins=self.plugins or (), disabled=self.disabled)


def load_intent(context: Context) -> Intent:
    """Return what is wanted now, with pm/policy in line with it.

    Raises:
        ConfigInvalid: a file has faults; all of one file are named.
    """
    layout = context.layout
    home_file = load_file(layout, layout.config)
    profile_file = load_file(layout, layout.profile_config(context.profile))
    home = parse_home_config(home_file.document)
    mirror_policy(context.filesystem, layout, lazy=home.lazy, config_digest=home_file.digest)
    profile = parse_profile_config(profile_file.document)
    says = isinstance(profile_file.document.data, dict) and "plugins" in profile_file.document.data
    return Intent(
        home_file=home_file,
        profile_file=profile_file,
        home=home,
        plugins=profile.plugins if says else None,
        disabled=profile.disabled,
    )


def is_unchanged(layout: Layout, intent: Intent) -> bool:
    """Return whether both files are still what was read."""
    return all(load_file(layout, file.path).digest == file.digest for file in (intent.home_file, intent.profile_file))


def plan_choice(intent: Intent, choice: Choice) -> str:
    """Return the profile's new text with these plugins, and these of them disabled; every other byte kept."""
    file, listed = intent.profile_file, intent.plugins
    if not file.text.strip():
        lines = "".join(f"- {json.dumps(name)}\n" for name in choice.plugins)
        file = with_text(file, f"schema: {SCHEMA}\nplugins:" + (f"\n{lines}" if lines else " []\n"))
        listed = choice.plugins
    for name, entries, before in (("plugins", choice.plugins, listed), ("disabled", choice.disabled, intent.disabled)):
        if entries != before:
            key, in_profile = find_key(name)
            file = with_text(file, plan_change(file, key, list(entries), in_profile=in_profile))
    return file.text


def write_pending(context: Context, file: ConfigFile, text: str, generation: str) -> None:
    """Have it on the disk that `file` gets `text` once `generation` is selected; a no-op where it says so already."""
    if text == file.text:
        context.filesystem.remove_tree(context.layout.pending_intent(context.profile))
        return
    pending = {"schema": 1, "generation": generation, "digest": file.digest, "text": text}
    context.filesystem.make_directories(context.layout.profile(context.profile))
    context.filesystem.write_durable(context.layout.pending_intent(context.profile), json.dumps(pending).encode())


def finish_pending(context: Context) -> tuple[str, ...]:
    """Have the profile's configuration say what was committed, and return what a person should know.

    Called after every commit, and by every operation before it reads the intent: a crash between is finished here. What
    was not committed is dropped. Running it twice is harmless.
    """
    layout, profile = context.layout, context.profile
    path = layout.pending_intent(profile)
    data = read_plain(layout, path, MAX_BYTES)
    if data is None:
        return ()
    notices: tuple[str, ...] = ()
    try:
        pending = json.loads(data)
        generation, digest, text = str(pending["generation"]), str(pending["digest"]), str(pending["text"])
    except (ValueError, KeyError, TypeError, RecursionError):
        generation = digest = text = ""
    file = load_file(layout, layout.profile_config(profile))
    try:
        committed = bool(generation) and load_pointer(layout, profile) == generation
    except IntegrityFault:
        committed = False
    edited = committed and file.digest not in {digest, hashlib.sha256(text.encode()).hexdigest()}
    if committed and file.digest == digest:
        try:
            save_text(context.filesystem, file, text)
        except ConfigChanged:  # edited in this very moment
            edited = True
    if edited:
        said = f"{file.document.file} was edited while {generation} was published; your edit stays"
        notices = (f"{said}, and the next install publishes what it says",)
    context.filesystem.remove_tree(path)
    return notices


def restore_lost(context: Context, record: Mapping[str, Any]) -> tuple[str, ...]:
    """Have a configuration file that somebody deleted say again what runs, and return a sentence for each.

    A profile without its file would want the host's bundle and nothing else, and a home without its own would not know
    where its host comes from: what a person installed would silently become less. What is there is left alone.
    """
    layout, notices = context.layout, []
    profile_file = load_file(layout, layout.profile_config(context.profile))
    if profile_file.digest == ABSENT:
        known = find_choice(load_history(layout, context.profile), str(record["id"]))
        choice = Choice(plugins=tuple(record.get("selection", ())))
        if known is not None:
            choice = Choice(plugins=known[0], disabled=known[1])
        empty = Intent(home_file=profile_file, profile_file=profile_file, home=HomeConfig(), plugins=None)
        notices.append(_restore(context, profile_file, plan_choice(empty, choice), record))
    home_file = load_file(layout, layout.config)
    if home_file.digest == ABSENT:
        host = record["host"]
        extras = list(record["inputs"].get("extras", ()))
        values = {"host.name": str(host["name"]), **read_source(str(host["source"])), "host.extras": extras}
        planned = with_text(home_file, f"schema: {SCHEMA}\n")
        for name, value in values.items():
            if value:
                key, in_profile = find_key(name)
                planned = with_text(planned, plan_change(planned, key, value, in_profile=in_profile))
        notices.append(_restore(context, home_file, planned.text, record))
        written = load_file(layout, layout.config)
        mirror_policy(context.filesystem, layout, lazy=is_lazy(written), config_digest=written.digest)
    return tuple(notices)


def _restore(context: Context, file: ConfigFile, text: str, record: Mapping[str, Any]) -> str:
    with contextlib.suppress(ConfigChanged):  # written by somebody in this very moment
        save_text(context.filesystem, file, text)
    return f"{file.document.file} was gone; it says again what {record['id']} runs, or ran"


def write_host(context: Context, intent: Intent, name: str, checkout: Path | None, extras: Sequence[str] = ()) -> None:
    """Have config.yaml say what is hosted and from where; an edit made meanwhile stays as it is."""
    values: dict[str, str | list[str]] = {"host.name": name}
    if checkout is not None:
        values["host.checkout"] = str(checkout)
    if tuple(extras) != intent.home.host_extras:
        values["host.extras"] = list(extras)
    layout = context.layout
    file = load_file(layout, intent.home_file.path)
    if file.digest != intent.home_file.digest:
        return
    # All of it in one write: a crash leaves the old text or the new one.
    planned = file if file.text.strip() else with_text(file, f"schema: {SCHEMA}\n")
    for key_name, value in values.items():
        if intent.home.values.get(key_name) == value:
            continue  # planning a change that is none takes as long as one: two readings of the file
        key, in_profile = find_key(key_name)
        planned = with_text(planned, plan_change(planned, key, value, in_profile=in_profile))
    if planned.text != file.text:
        with contextlib.suppress(ConfigChanged):  # edited in this very moment: that edit stays
            save_text(context.filesystem, file, planned.text)
    file = load_file(layout, layout.config)
    mirror_policy(context.filesystem, layout, lazy=parse_home_config(file.document).lazy, config_digest=file.digest)


def align_profile(context: Context, entries: Sequence[str], generation: str) -> Choice:
    """Have it written down what the profile's configuration says once `generation` is selected, and return that.

    It is what it said when the profile selected that generation last; where that is not known, the generation's own
    `entries` are what is enabled.
    """
    intent = load_intent(context)
    known = find_choice(load_history(context.layout, context.profile), generation)
    said = None if known is None else Choice(plugins=known[0], disabled=known[1])
    choice = said or follow_generation(intent.choice, entries)
    if intent.plugins is not None and choice != intent.choice:
        write_pending(context, intent.profile_file, plan_choice(intent, choice), generation)
    return choice
