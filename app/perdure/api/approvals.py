"""What a plugin needs to assess what an agent wants to do: the hook `assess`."""

from perdure.domain.assessment import Assessment, AssessmentRequest, Opinion
from perdure.domain.verdict import Risk

__all__ = ["Assessment", "AssessmentRequest", "Opinion", "Risk"]
