exec "$home/@TARGET@" "$@"
