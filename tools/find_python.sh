#!/bin/sh
# Prints the first Python of version 3.11 or newer that can make virtual environments; PYTHON=... names one to try first.
set -eu
for candidate in ${PYTHON:-} python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        if ! "$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then
            echo "$candidate has no venv module: on Debian and Ubuntu install it with: sudo apt-get install python3-venv" >&2
            continue
        fi
        command -v "$candidate"
        exit 0
    fi
done
echo "Python 3.11 or newer is needed and none was found (python3 is $(python3 --version 2>&1 || true))." >&2
echo "Install it, for example: Debian and Ubuntu: sudo apt-get install python3 python3-venv; Fedora: sudo dnf install python3;" >&2
echo "macOS: brew install python; or name one: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
