if [ -e "$home/profiles/$profile/trial" ] && [ -z "${PERDURE_TRIAL-}" ] &&
    [ "${1-}" != --version ] && [ "${1-}" != --help ]; then
    # The selected generation is on trial: PM judges it first, and then starts this launcher again. What only asks for
    # the version starts nothing that could show whether it works, so it does not count.
    exec "$home/bin/perdure-pm" --home "$home" --profile "$profile" start-on-trial "@COMMAND@" "$@"
fi
folder=$home/store/generations/$generation
environment=$folder/venv
problem=
[ -x "$environment/bin/python" ] || problem='its interpreter is gone'
# Without its standard library an interpreter dies before it could say why.
library=
[ -f "$folder/library" ] && read -r library <"$folder/library"
case $library in '' | /*) ;; *) library=$home/$library ;; esac
[ -n "$problem" ] || [ -z "$library" ] || [ -r "$library/encodings/__init__.py" ] ||
    problem="the standard library of its interpreter is gone ($library)"
if [ -n "$problem" ]; then
    echo "error: generation $generation cannot start: $problem" >&2
    echo "  try: \"$home/bin/perdure-pm\" install" >&2
    exit 1
fi
@ENVIRONMENT@
script=
if [ "@COMMAND@" = perdure ]; then
    safe=${PERDURE_SAFE_MODE-}
    [ "${1-}" = --safe-mode ] && safe=1
    case $safe in
    1 | [Tt]rue | TRUE | [Yy]es | YES | [Oo]n | ON)
        for start in "$environment"/lib/python*/site-packages/perdure/safe_start.py; do
            [ -r "$start" ] && script=$start && break
        done
        ;;
    esac
fi
# The script is named to the interpreter: its first line cannot hold every path, and PYTHON* must not reach it.
if [ -n "$script" ]; then
    # Without site, nothing that a plugin's distribution has Python run at every start is run either.
    set -- -S "$script" "$@"
elif [ -r "$folder/start.py" ]; then
    set -- "$folder/start.py" "$environment/bin/@COMMAND@" "$@"
else
    set -- "$environment/bin/@COMMAND@" "$@"
fi
set -- "$environment/bin/python" -I "$@"
@PROTECT@
exec "$@"
