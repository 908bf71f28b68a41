#!/bin/sh
# Runs the units of a kit under a real systemd, with nginx, in a container of systemd-nspawn.
#
#   mkdir wheels && pip wheel "fedbandits[flower,report,privacy]" --wheel-dir wheels
#   sh try-systemd.sh wheels
#
# Needs root, mmdebstrap and systemd-container. It ends with exit code 0 if the server and two nodes,
# installed by their install.sh, have decided a run.
set -eu
wheels=$(realpath "$1")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
base=systemd,systemd-sysv,dbus,python3-venv,nginx-light
mmdebstrap --quiet --variant=minbase --include=$base bookworm "$root"
cp -R "$wheels" "$root/wheels"
echo "127.0.0.1 localhost trial.example.org" >"$root/etc/hosts"
cat >"$root/try.sh" <<'END'
set -eux
python3 -m venv /opt/fedbandits
/opt/fedbandits/bin/pip install -q --no-index --find-links /wheels "fedbandits[flower,report,privacy]"
PATH=/opt/fedbandits/bin:$PATH
cd /root
fedbandits new my_test
sed -i 's/pulls = "50"/pulls = "400"/; s/least = 4/least = 2/' my_test/fedbandits.toml
fedbandits kit my_test --nodes clinic-1,clinic-2 --address trial.example.org:9092 --out kit
sh kit/server/install.sh
ln -s /srv/fedbandits/server/nginx.conf /etc/nginx/conf.d/fedbandits.conf
systemctl restart nginx
cd /srv/fedbandits/server
for key in nodes/*.pub; do
    until FLWR_HOME=/srv/fedbandits/server flwr supernode register "$key" my-test; do sleep 1; done
done
sh /root/kit/clinic-1/install.sh
sh /root/kit/clinic-2/install.sh
for _ in $(seq 150); do
    systemctl is-active fedbandits-run >/dev/null || break
    sleep 2
done
systemctl --no-pager status 'fedbandits-*' || true
systemd-analyze --no-pager security 'fedbandits-run' fedbandits-superlink fedbandits-clinic-1 | grep Overall
fedbandits status /var/lib/fedbandits/server/run.fedlog
[ "$(systemctl show -P Result fedbandits-run)" = success ]
ls -l /var/lib/fedbandits/*/state/*.answer.json
echo done >/tried
END
cat >"$root/etc/systemd/system/try.service" <<'END'
[Service]
Type=oneshot
ExecStart=sh /try.sh
ExecStopPost=systemctl poweroff --no-block
StandardOutput=file:/try.txt
StandardError=inherit
END
ln -s ../try.service "$root/etc/systemd/system/multi-user.target.wants/try.service"
systemd-nspawn --quiet --register=no --keep-unit --private-network --boot --directory "$root" >/dev/null || true
cat "$root/try.txt"
[ -e "$root/tried" ]
