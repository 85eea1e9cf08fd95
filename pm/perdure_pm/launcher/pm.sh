# Say a refusal as everything else of PM does: an object on standard output where JSON was asked for, words otherwise.
as_json=
case ${PERDURE_JSON-} in 1 | [Tt][Rr][Uu][Ee] | [Yy][Ee][Ss] | [Oo][Nn]) as_json=1 ;; esac
for word; do
    case $word in --) break ;; --json) as_json=1 ;; esac
done
control='[:cntrl:]'
quote() { # have "quoted" be $1 as a JSON string, one character after the other: no program need be there
    quoted= left=$1
    while [ -n "$left" ]; do
        letter=${left%"${left#?}"}
        left=${left#?}
        case $letter in
        '"' | \\) letter=\\$letter ;;
        [$control]) letter='\ufffd' ;;
        esac
        quoted=$quoted$letter
    done
    quoted=\"$quoted\"
}
refuse() { # code, exit code, state, summary, hint
    if [ -n "$as_json" ]; then
        quote "$4"
        summary=$quoted
        quote "$5"
        error="{\"code\": \"$1\", \"summary\": $summary, \"context\": {}, \"hint\": $quoted, \"retry\": \"after-change\""
        printf '%s\n' "{\"schema\": 1, \"command\": \"\", \"status\": \"failed\", \"exit_code\": $2, \"data\": {}, \"errors\": [$error, \"state\": \"$3\"}]}"
    else
        printf 'error: %s\n  try: %s\n' "$4" "$5" >&2
    fi
    exit "$2"
}
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
    refuse integrity 8 needs-recovery "PM's runtime and the seed that rebuilds it are gone from this home" \
        "python3 pm/bootstrap.py --home \"$home\" up   (in a checkout of Perdure)"
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
refuse interpreter-missing 1 needs-recovery \
    "PM's runtime cannot start, and there is no Python of at least 3.9 to rebuild it with" \
    "install Python 3.9 or newer, then run the same command again"
