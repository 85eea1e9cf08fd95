"""Calling tools.

Owns: reading a call's arguments from a command line (arguments) and running a tool (dispatch). Does not own: which
tools there are (plugin_manager) or showing what they return (cli).
"""
