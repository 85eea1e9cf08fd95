# Puts what this payload carries into a home. All that is needed of the machine is sh, and a Python @PYTHON@ where the
# payload has none of its own; what runs then looks at every byte of the payload before it uses any.
payload=$folder
here=$(uname -s)-$(uname -m)
case $here in Linux-*) here=linux-${here#*-} ;; Darwin-*) here=darwin-${here#*-} ;; esac
if [ "$here" != "@TARGET@" ]; then
    refuse platform-unsupported 1 unchanged "the payload $payload is for @TARGET@, and this machine is $here" \
        "make one on a machine of the same kind as this: perdure-pm stage --out DIR"
fi
seed=
[ -f "$payload/content/pm/seed/current" ] && read -r seed <"$payload/content/pm/seed/current"
case $seed in '' | *[!a-f0-9]*) seed=missing ;; esac
bootstrap=$payload/content/pm/seed/$seed/pm/bootstrap.py
if [ ! -r "$bootstrap" ] || [ -L "$payload/content/pm/seed/$seed" ]; then
    refuse integrity 8 unchanged "the payload $payload has no seed of PM in itself: it is not as it was made" \
        "reinstall from a payload that is as it was made: copy all of it again"
fi
asked= previous=
for word; do
    case $previous in --python) asked=$word ;; esac
    case $word in --python=*) asked=${word#*=} ;; esac
    previous=$word
done
[ -n "$asked" ] || asked=${PERDURE_PYTHON-}
check='import sys
sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@" or sys.implementation.name != "cpython")'
for python in "$asked" "$payload"/content/python/*/bin/python3 python@PYTHON@ python3 /usr/bin/python3 \
    /usr/local/bin/python@PYTHON@; do
    # Without -B an interpreter that lies in the payload would write byte code there.
    if [ -n "$python" ] && "$python" -I -B -c "$check" >/dev/null 2>&1; then
        exec "$python" -I -B "$bootstrap" activate "$payload" "$@"
    fi
done
refuse interpreter-missing 1 unchanged \
    "the payload $payload is for Python @PYTHON@, and there is none: neither in it, nor on the PATH" \
    "name one with --python PATH, or make a payload that has its own: perdure-pm stage --with-python --out DIR"
