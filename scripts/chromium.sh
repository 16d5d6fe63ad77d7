#!/usr/bin/env bash
# The browser tests need Chromium, and letters for Chinese: take what is there, or install Debian's.
set -euo pipefail
wanted="chromium"
for browser in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  if [ -n "$browser" ] && [ -x "$browser" ]; then wanted=""; fi
done
# 2 MB. Without them the picture in Chinese shows boxes, and no test fails.
letters=""
if command -v fc-list >/dev/null && [ -z "$(fc-list :lang=zh-cn)" ]; then letters="fonts-wqy-microhei"; fi
if [ "$wanted" ]; then letters="fonts-wqy-microhei"; fi
if [ -z "$wanted$letters" ]; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  if [ -z "$wanted" ]; then exit 0; fi
  echo "The browser tests need Chromium. Install it, or set CHROMIUM to its path." >&2
  exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then as_root="sudo"; fi
echo "Installing for the browser tests: $wanted $letters"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # one word for each package
$as_root apt-get install -y -qq $wanted $letters >/dev/null
