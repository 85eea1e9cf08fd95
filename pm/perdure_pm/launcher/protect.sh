# host.protect: @POLICY@
if [ -r "$folder/protect.py" ]; then
    set -- "$environment/bin/python" -I -S "$folder/protect.py" @POLICY@ "$home" "$profile" "$@"
elif [ @POLICY@ = require ]; then
    echo "error: generation $generation cannot start: host.protect is require, and its protect.py is gone" >&2
    echo "  try: \"$home/bin/perdure-pm\" install" >&2
    exit 1
else
    echo "notice: the home $home is not protected from this host: the generation's protect.py is gone" >&2
fi
