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
