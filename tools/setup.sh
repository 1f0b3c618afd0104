#!/usr/bin/env bash
# Installs the Debian 12 packages that building mtf-train requires, and Fashion-MNIST for the quick start.
# `tools/setup.sh tests` adds the packages of the tests, `wheel` and `release` those of tools/wheel.sh and
# tools/release.sh. Does nothing if all are installed. Works as root or with sudo.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache python3 file
  libyaml-cpp-dev libcxxopts-dev libspdlog-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libxxhash-dev libeigen3-dev
  libprotozero-dev libsentencepiece-dev libicu-dev libpugixml-dev libgloo-dev libssl-dev libpng-dev libjpeg62-turbo-dev
  libgtest-dev libgmock-dev libboost-context-dev
  dataset-fashion-mnist
)
case ${1:-} in
  tests) packages+=(python3-venv openmpi-bin iproute2 chromium) ;;
  wheel) packages+=(python3-venv) ;;
  release) packages+=(python3-venv mmdebstrap) ;;
  "") ;;
  *) echo "setup: $1 is none of tests, wheel, release" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup: this is not Debian; install what corresponds to: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
