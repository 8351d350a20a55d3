#!/bin/sh
# Tries the C compiler that a Python's extension modules are built with; says what is missing. Argument: the Python.
set -eu
python="$1"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
printf '#include <Python.h>\nint main(void) { return 0; }\n' >"$folder/try.c"
compiler="${CC:-$("$python" -c 'import sysconfig; print((sysconfig.get_config_var("CC") or "cc").split()[0])')}"
if ! command -v "${compiler%% *}" >/dev/null 2>&1; then
    echo "A C compiler is needed to build the core, and '$compiler' was not found. Install one, for example:" >&2
    echo "Debian and Ubuntu: sudo apt-get install gcc; Fedora: sudo dnf install gcc; macOS: xcode-select --install" >&2
    echo "or go without, several times slower: make REQUEST_PURGATORY_BUILD=interpreted ..." >&2
    exit 1
fi
include="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
if ! $compiler -I"$include" -c "$folder/try.c" -o "$folder/try.o" 2>"$folder/errors"; then
    cat "$folder/errors" >&2
    echo "'$compiler' can't compile against the headers of $python in $include. Install them, for example:" >&2
    echo "Debian and Ubuntu: sudo apt-get install python3-dev; Fedora: sudo dnf install python3-devel" >&2
    exit 1
fi
