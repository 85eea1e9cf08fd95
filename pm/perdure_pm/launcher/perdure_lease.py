"""Holds the generation that this interpreter was started from: imported by a path file in the generation's venv.

Owns: one shared kernel lock on the generation's `lease` file for the life of the process. The descriptor is
inheritable, so a child that keeps its parent's descriptors holds it too. Nothing here may ever stop a start.
"""

import os
import sys
import time

try:
    import fcntl

    _handle = os.open(os.path.join(os.path.dirname(sys.prefix), "lease"), os.O_RDONLY)
    if _handle < 3:
        # A closed standard stream, whose number a program's own output or input would be expected at.
        _low, _handle = _handle, fcntl.fcntl(_handle, fcntl.F_DUPFD, 3)
        os.close(_low)
    os.set_inheritable(_handle, True)  # noqa: FBT003 - positional only  # positional only
    for _ in range(100):
        try:
            fcntl.flock(_handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.002)  # a collection that tries the lock holds it for an instant
except (ImportError, OSError):
    pass
