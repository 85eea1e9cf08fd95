profile=${PERDURE_PROFILE:-default}
generation=
case $profile in
*[!A-Za-z0-9._-]* | .*) ;;
*) [ -f "$home/profiles/$profile/current" ] && read -r generation <"$home/profiles/$profile/current" ;;
esac
case $generation in
'' | *[!a-z0-9-]*)
    echo "error: nothing is installed in this home (profile $profile)" >&2
    echo "  try: \"$home/bin/perdure-pm\" install" >&2
    exit 1
    ;;
esac
