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
try_pythons() {
    for python in "$home"/python/*/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10 \
        python3.9 /usr/bin/python3 /usr/local/bin/python3; do
        # What bootstrap imports is asked for too: an interpreter may have lost a part of its standard library.
        if "$python" -I -c "$check" >/dev/null 2>&1; then
            exec "$python" -I "$bootstrap" --home "$home" rescue "$@"
        fi
    done
}
try_pythons "$@"
# There is no Python. uv needs none and brings one into the home, unless nobody asked for an install and none may be made.
asked=
case ${1-} in install | repair | upgrade) asked=1 ;; esac
case "${1-} ${2-}" in 'self rebuild' | 'self update' | 'plugin add' | 'plugin update' | 'python install') asked=1 ;; esac
if [ -z "$asked" ] && [ -r "$home/pm/policy" ]; then
    while read -r line; do [ "$line" != lazy=true ] || asked=1; done <"$home/pm/policy"
    case ${PERDURE_NO_LAZY-} in '' | 0 | [Ff]alse | FALSE | [Nn]o | NO | [Oo]ff | OFF) ;; *) asked= ;; esac
    [ ! "$home/config.yaml" -nt "$home/pm/policy" ] || asked= # what it says now is not mirrored yet
fi
if [ -n "$asked" ]; then
    for uv in "$home"/tools/uv/*/uv; do
        [ -x "$uv" ] || continue
        echo "there is no Python of at least 3.9: uv brings one in, 3.13" >&2
        # Nothing of the caller's reaches uv but how the network is reached, as in adapters/uv.py.
        /usr/bin/env -i PATH=/usr/bin:/bin HOME="$home/cache/tmp" LC_ALL=C.UTF-8 \
            ${HTTP_PROXY+"HTTP_PROXY=$HTTP_PROXY"} ${HTTPS_PROXY+"HTTPS_PROXY=$HTTPS_PROXY"} \
            ${ALL_PROXY+"ALL_PROXY=$ALL_PROXY"} ${NO_PROXY+"NO_PROXY=$NO_PROXY"} \
            ${PERDURE_PROXY+"HTTP_PROXY=$PERDURE_PROXY" "HTTPS_PROXY=$PERDURE_PROXY" "ALL_PROXY=$PERDURE_PROXY"} \
            ${SSL_CERT_FILE+"SSL_CERT_FILE=$SSL_CERT_FILE"} ${SSL_CERT_DIR+"SSL_CERT_DIR=$SSL_CERT_DIR"} \
            ${PERDURE_CERTIFICATE+"SSL_CERT_FILE=$PERDURE_CERTIFICATE"} \
            "$uv" python install --no-bin --no-config --system-certs --no-progress --color never \
            --install-dir "$home/python" --cache-dir "$home/cache/uv" \
            ${PERDURE_PYTHON_DOWNLOADS:+--python-downloads-json-url "$PERDURE_PYTHON_DOWNLOADS"} 3.13 >&2 || continue
        try_pythons "$@"
    done
fi
refuse interpreter-missing 1 needs-recovery \
    "PM's runtime cannot start, and there is no Python of at least 3.9 to rebuild it with" \
    "install Python 3.9 or newer, then run the same command again"
