"""What a tool acts on files and runs code with: `ToolCall.workspace`, which asks the guard and the approvals itself."""

from perdure.domain.workspace import Change, CodeResult, Edit, FileText, ListedFile, Patch, Workspace

__all__ = ["Change", "CodeResult", "Edit", "FileText", "ListedFile", "Patch", "Workspace"]
