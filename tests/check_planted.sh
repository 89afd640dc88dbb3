#!/usr/bin/env bash
# check_planted.sh PROGRAM FAULT PATTERN - a planted fault makes the program fail, and is named.
#
#     check_planted.sh ./planted leak LeakSanitizer   ->   exit 0 when planted failed and said so
set -euo pipefail

"$1" none
if said=$("$1" "$2" 2>&1); then
    echo "the planted $2 was not seen"
    exit 1
fi
if ! grep -q "$3" <<<"$said"; then
    printf 'planted %s failed without "%s":\n%s\n' "$2" "$3" "$said"
    exit 1
fi
