runtime=
[ -f "$home/pm/current" ] && read -r runtime <"$home/pm/current"
case $runtime in
'' | *[!a-z0-9.-]*) ;;
*)
    runtime=$home/pm/runtimes/$runtime
    if [ -x "$runtime/venv/bin/python" ] && [ -r "$runtime/entry.py" ]; then
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
for python in "$home"/python/*/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 \
    /usr/bin/python3 /usr/local/bin/python3; do
    if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; then
        exec "$python" -I "$bootstrap" --home "$home" rescue "$@"
    fi
done
echo "error: PM's runtime cannot start, and there is no Python of at least 3.9 to rebuild it with" >&2
echo "  try: install Python 3.9 or newer, then run the same command again" >&2
exit 1
