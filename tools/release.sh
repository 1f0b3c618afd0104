#!/usr/bin/env bash
# Makes the Debian package and the wheel in build/dist, and tries both in fresh systems that have nothing else: the package
# on Debian 12, the wheel with the Pythons of Debian 12 (3.11) and 13 (3.13). Works as root or where users have namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh release
rm -rf build/dist
tools/wheel.sh
cpack --config build/CPackConfig.cmake
rm -r build/dist/_CPack_Packages

# try SUITE PACKAGES INSTALLATION PREFIX: makes a Debian with PACKAGES, runs the commands INSTALLATION in it, and tries what
# is then installed below PREFIX.
try() {
  echo "release: on $1: $3"
  mmdebstrap --quiet --variant=apt --include="$2" --format=null \
    --customize-hook="copy-in build/dist tools/try.sh /usr/share/datasets/fashion-mnist /root" \
    --customize-hook="chroot \"\$1\" sh -ec 'cd /root; $3; bash try.sh $4 fashion-mnist'" "$1"
}
try bookworm ca-certificates "apt-get install -y -q ./dist/*.deb" /usr
for suite in bookworm trixie; do
  try $suite python3-venv "python3 -m venv venv; venv/bin/pip install --no-index dist/*.whl" /root/venv
done
ls -l build/dist/*.deb build/dist/*.whl
