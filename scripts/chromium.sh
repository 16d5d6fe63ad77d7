#!/usr/bin/env bash
# The browser tests need Chromium: take the one that is there, or install Debian's.
set -euo pipefail
for browser in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  if [ -n "$browser" ] && [ -x "$browser" ]; then exit 0; fi
done
if ! command -v apt-get >/dev/null; then
  echo "The browser tests need Chromium. Install it, or set CHROMIUM to its path." >&2
  exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then as_root="sudo"; fi
echo "Installing Chromium for the browser tests"
$as_root apt-get update -qq
$as_root apt-get install -y -qq chromium >/dev/null
