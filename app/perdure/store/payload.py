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
        document = json.loads(data)
        if document.pop("form") != FORM:
            raise PayloadCorrupt("its form is not known")
        return _proposal(document)
    except PayloadCorrupt:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PayloadCorrupt(f"it is no proposal: {error}") from error


def _proposal(document: dict[str, Any]) -> Proposal:  # what JSON holds is anything
    operation, pinned = document["operation"], document["pinned"]
    return Proposal(
        **{
            **document,
            "surface": Surface(document["surface"]),
            "requester": Principal(**document["requester"]),
            "offers": tuple(Offer(**each) for each in document["offers"]),
            "created": dt.datetime.fromisoformat(document["created"]),
            "expires": dt.datetime.fromisoformat(document["expires"]),
            "operation": Operation(
                **{
                    **operation,
                    "kind": OperationKind(operation["kind"]),
                    "argv": tuple(operation["argv"]),
                    "paths": tuple(operation["paths"]),
                    "environment": tuple(operation["environment"]),
                    "digests": tuple(Digest(**each) for each in operation["digests"]),
                }
            ),
            "pinned": Pinned(
                **{
                    **pinned,
                    "risk": None if pinned["risk"] is None else Risk(pinned["risk"]),
                    "reasons": tuple(_reason(each) for each in pinned["reasons"]),
                    "scopes": tuple(map(Scope, pinned["scopes"])),
                    "default": Default(pinned["default"]),
                }
            ),
        }
    )


def _reason(document: dict[str, Any]) -> Reason:  # what JSON holds is anything
    span = document["span"]
    return Reason(**{**document, "span": None if span is None else Span(**span)})
