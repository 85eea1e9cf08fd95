"""Approvals: what an operation of an agent needs before it may start.

`decide` is the one pipeline; everything beside it feeds it or says what it said.
"""
