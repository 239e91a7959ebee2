#!/bin/sh
# Serves Chromium without a window, with a profile of its own that goes when it ends.
# Prints the address of its DevTools when they answer, and ends when its standard input is closed.

trap : INT TERM HUP # they reach every process of a test that is ended, and there is something to put away

set -- chromium chromium-browser google-chrome
[ -z "$CHROMIUM" ] || set -- "$CHROMIUM"
for program; do
	found=$(command -v "$program") && break
done
[ -n "$found" ] || { echo "missing: $1"; exit 0; }

# Chromium writes nothing to its standard output, so that is this script's standard error: whoever waits for the end of that has
# waited for every process of it. It complains a lot, which is shown only if it does not start.
own=$(mktemp -d)
HOME=$own "$found" --headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --disable-sync --disable-breakpad --hide-scrollbars \
	--no-first-run --no-default-browser-check --disable-background-networking --disable-component-update \
	--host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1' \
	--remote-debugging-port=0 --user-data-dir="$own/profile" about:blank </dev/null >&2 2>"$own/log" &
browser=$!

runs() { kill -0 $browser 2>/dev/null; }

tick=0
until [ -s "$own/profile/DevToolsActivePort" ] || ! runs || [ $tick -ge 1000 ]; do
	sleep 0.05
	tick=$((tick + 1))
done
if runs && [ -s "$own/profile/DevToolsActivePort" ]; then
	read -r port <"$own/profile/DevToolsActivePort"
	echo "http://127.0.0.1:$port"
	cat >/dev/null
else
	cat "$own/log" >&2
fi

kill $browser 2>/dev/null
tick=0
while runs && [ $tick -lt 100 ]; do
	sleep 0.05
	tick=$((tick + 1))
done
kill -9 $browser 2>/dev/null
rm -rf "$own"
