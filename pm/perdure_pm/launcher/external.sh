folder=$home/store/generations/$generation
if [ ! -x "$folder/venv/bin/python" ] || [ ! -r "$folder/external.py" ]; then
    echo "error: generation $generation cannot start @COMMAND@: its interpreter or its external.py is gone" >&2
    echo "  try: \"$home/bin/perdure-pm\" install" >&2
    exit 1
fi
exec "$folder/venv/bin/python" -I "$folder/external.py" @COMMAND@ "$@"
