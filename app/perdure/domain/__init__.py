"""Pure values and rules of the app.

Owns: what a tool, a result, a finding, a plugin's state, a boot manifest and an error *are*. Does not own: any
effect; nothing below this package reads a file, a clock or the environment.
"""
