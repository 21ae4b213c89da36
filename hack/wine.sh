#!/bin/sh
# Wine for the tests of the Windows build. Without arguments it prints its commands.
exec "$(dirname "$0")/../lab/session/wine.sh" "$@"
