"""A proposal as bytes, and back.

Owns: the JSON form of the payload, which is written once. Does not own: the lifecycle, which lies in columns of its
own. Keeps: store-payload-whole: bytes that are not what was written, in any respect, make no proposal at all.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import asdict
from typing import Any

from perdure.domain.effect import Span
from perdure.domain.operation import Digest, Operation, OperationKind, Principal, Surface
from perdure.domain.outcome import Scope
from perdure.domain.proposal import Default, Offer, Pinned, Proposal
from perdure.domain.verdict import Reason, Risk

FORM = 1
# A look into a dictionary takes a fifth of what a call of the class takes.
_KINDS = {each.value: each for each in OperationKind}
_RISKS = {each.value: each for each in Risk}
_SCOPES = {each.value: each for each in Scope}
_DEFAULTS = {each.value: each for each in Default}
_SURFACES = {each.value: each for each in Surface}


class PayloadCorrupt(ValueError):
    """The bytes are not a proposal."""


def dump(proposal: Proposal) -> tuple[bytes, str]:
    """Return the bytes, and their digest. ASCII: arguments that are no text survive as they are."""
    document = {"form": FORM, **asdict(proposal)}
    document["created"], document["expires"] = proposal.created.isoformat(), proposal.expires.isoformat()
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return data, hashlib.sha256(data).hexdigest()


def load(data: object, digest: object) -> Proposal:
    """Return the proposal.

    Raises:
        PayloadCorrupt: it is not what was written.
    """
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != digest:
        raise PayloadCorrupt("its digest is another one")
    try:
        # Not the bytes: what is not known to be ASCII is looked through for its encoding.
        document = json.loads(data.decode("ascii"))
        if document.pop("form") != FORM:
            raise PayloadCorrupt("its form is not known")
        return _proposal(document)
    except PayloadCorrupt:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PayloadCorrupt(f"it is no proposal: {error}") from error


def _proposal(document: dict[str, Any]) -> Proposal:  # what JSON holds is anything
    operation, pinned = document["operation"], document["pinned"]
    # In place: the document is ours alone, and a list of a thousand reads a thousand of them.
    operation["kind"] = _KINDS[operation["kind"]]
    for name in ("argv", "paths", "environment"):
        operation[name] = tuple(operation[name])
    operation["digests"] = tuple([Digest(**each) for each in operation["digests"]])
    pinned["risk"] = None if pinned["risk"] is None else _RISKS[pinned["risk"]]
    pinned["reasons"] = tuple([_reason(each) for each in pinned["reasons"]])
    pinned["scopes"] = tuple([_SCOPES[each] for each in pinned["scopes"]])
    pinned["default"] = _DEFAULTS[pinned["default"]]
    document["surface"] = _SURFACES[document["surface"]]
    document["requester"] = Principal(**document["requester"])
    document["offers"] = tuple([Offer(**each) for each in document["offers"]])
    document["created"] = dt.datetime.fromisoformat(document["created"])
    document["expires"] = dt.datetime.fromisoformat(document["expires"])
    document["operation"], document["pinned"] = Operation(**operation), Pinned(**pinned)
    return Proposal(**document)


def _reason(document: dict[str, Any]) -> Reason:  # what JSON holds is anything
    if document["span"] is not None:
        document["span"] = Span(**document["span"])
    return Reason(**document)
