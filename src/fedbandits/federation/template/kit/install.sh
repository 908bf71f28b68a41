#!/bin/sh
# Installs this folder on its machine; run it as root.
set -eu
cd "$(dirname "$0")"
id fedbandits >/dev/null 2>&1 || useradd --system --home-dir @HOME@ fedbandits
install -d -m 0700 -o fedbandits -g fedbandits @STATE@
install -d -m 0750 -g fedbandits @FOLDER@
[ "$(pwd -P)" = "$(cd @FOLDER@ && pwd -P)" ] || cp -R . @FOLDER@
chown -R root:fedbandits @FOLDER@
chmod -R u=rwX,g=rX,o= @FOLDER@
cp @FOLDER@/*.service /etc/systemd/system
systemctl daemon-reload
systemctl enable --now @UNITS@
