#!/bin/sh
# Checks the pages in FOLDER/pages with Chromium. Installs Chromium from the system's packages and its driver from npm if they
# are missing; if that fails, prints a note and does not fail the build.
#
# run.sh FOLDER
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "browser check skipped: $1"
    exit 0
}

has_chromium() {
    test -n "${CHROMIUM:-}" || command -v chromium || command -v chromium-browser || command -v google-chrome
}

if ! has_chromium > "$folder/setup.log" 2>&1; then
    command -v apt-get > /dev/null || skip "there is no Chromium, and no apt-get to install it"
    { apt-get update && apt-get install --yes --no-install-recommends chromium; } >> "$folder/setup.log" 2>&1 ||
        skip "Chromium cannot be installed (see $folder/setup.log)"
fi
command -v node > /dev/null && command -v npm > /dev/null || skip "there is no node and npm"

mkdir -p "$folder/driver"
cp "$here/package.json" "$here/package-lock.json" "$here/check.mjs" "$folder/driver/"
cd "$folder/driver"
if ! cmp -s package-lock.json installed; then
    npm ci --ignore-scripts --no-audit --no-fund >> "$folder/setup.log" 2>&1 ||
        skip "playwright-core cannot be installed (see $folder/setup.log)"
    cp package-lock.json installed
fi
node check.mjs "$folder"/pages/*.html

# The check must find the problem of a spoiled page.
for spoil in 's|</main>|<p style="width: 2000px">wide</p></main>|' 's|<data value="0|<data value="7|' 's|</main>|<script>nothing()</script></main>|' \
    's|<p class="download">|<p>|' 's|button.hidden = false|button.hidden = true|'; do
    sed "$spoil" "$folder/pages/three.html" > "$folder/driver/spoiled.html"
    if node check.mjs spoiled.html > "$folder/spoiled.log" 2>&1; then
        echo "the check did not see a page spoiled by $spoil"
        exit 1
    fi
done
