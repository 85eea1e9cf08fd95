"""What a command would do, before it does it.

Reading turns a text into effects, roots says what is protected, judging compares the two, classification says how
risky the rest is. All of it is pure but for `probe`, which asks the filesystem, and the reader that starts `shfmt`.

Owns: verdicts on command lines. Does not own: running anything (tools), or who may allow what is asked (approvals).
"""
