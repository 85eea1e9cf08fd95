skipped=${PERDURE_RUNTIME_SKIPPED-} # the runtime's own word that its interpreter is of no use
unset PERDURE_RUNTIME_SKIPPED
runtime=
[ -f "$home/pm/current" ] && read -r runtime <"$home/pm/current"
case $runtime in
'' | *[!a-z0-9.-]*) ;;
*)
    runtime=$home/pm/runtimes/$runtime
    # Without its standard library an interpreter dies before it could hand over.
    library=
    [ -f "$runtime/library" ] && read -r library <"$runtime/library"
    case $library in '' | /*) ;; *) library=$home/$library ;; esac
    if [ -x "$runtime/venv/bin/python" ] && [ -r "$runtime/entry.py" ] && [ -z "$skipped" ] &&
        { [ -z "$library" ] || [ -r "$library/encodings/__init__.py" ]; }; then
        exec "$runtime/venv/bin/python" -I "$runtime/entry.py" "$@"
    fi
    ;;
esac
# PM's runtime cannot start: the seed rebuilds it with any Python of at least 3.9, then does what was asked.
seed=
[ -f "$home/pm/seed/current" ] && read -r seed <"$home/pm/seed/current"
case $seed in '' | *[!a-z0-9.-]*) seed=missing ;; esac
bootstrap=$home/pm/seed/$seed/pm/bootstrap.py
if [ ! -r "$bootstrap" ]; then
    echo "error: PM's runtime and the seed that rebuilds it are gone from this home" >&2
    echo "  try: python3 pm/bootstrap.py --home \"$home\" up   (in a checkout of Perdure)" >&2
    exit 1
fi
check='import sys
import argparse, ctypes, hashlib, json, subprocess, zipfile
sys.exit(sys.version_info < (3, 9))'
for python in "$home"/python/*/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 \
    /usr/bin/python3 /usr/local/bin/python3; do
    # What bootstrap imports is asked for too: an interpreter may have lost a part of its standard library.
    if "$python" -I -c "$check" >/dev/null 2>&1; then
        exec "$python" -I "$bootstrap" --home "$home" rescue "$@"
    fi
done
echo "error: PM's runtime cannot start, and there is no Python of at least 3.9 to rebuild it with" >&2
echo "  try: install Python 3.9 or newer, then run the same command again" >&2
exit 1
