if [ "${1-}" = pm ] && [ "@COMMAND@" = perdure ]; then
    shift
    exec "$home/bin/perdure-pm" "$@"
fi
