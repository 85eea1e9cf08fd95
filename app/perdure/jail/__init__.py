"""The jail: a command sees what is protected read-only, because the kernel says so and not because its text was read.

Owns: what is read-only, pinned and hidden (plan), how bubblewrap and sandbox-exec are told (bubblewrap, seatbelt), what
a profile asks for (policy), and what this machine can do (machine, service). Does not own: which roots there are
(guard.roots), or starting a command (tools). All of it is pure but for machine.
"""
