#!/bin/sh
# Installs the system packages the build needs, only those that are missing. Tools found on PATH count, wherever they are from.
set -u
want=""
need() { want="$want $1"; }
has() { command -v "$1" >/dev/null 2>&1; }
header() { for d in /usr/include /usr/local/include /usr/include/x86_64-linux-gnu /usr/include/aarch64-linux-gnu; do [ -e "$d/$1" ] && return 0; done; return 1; }
python=${PYTHON:-python3}

has gcc || need gcc
has g++ || need g++
has make || need make
has meson || need meson
has ninja || need ninja-build
has pkg-config || need pkg-config
has protoc-c || need protobuf-c-compiler
has llvm-config-19 || need llvm-19-dev
header cmocka.h || need libcmocka-dev
header jansson.h || need libjansson-dev
header xxhash.h || need libxxhash-dev
header protobuf-c/protobuf-c.h || need libprotobuf-c-dev
header sodium.h || need libsodium-dev
header sqlite3.h || need libsqlite3-dev
header zlib.h || need zlib1g-dev
has "$python" || need python3
"$python" -c 'import venv, ensurepip' 2>/dev/null || need python3-venv
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null || need python3-dev
[ -z "$want" ] && exit 0

if ! has apt-get; then
  echo "Missing, and this system has no apt-get. Please install what corresponds to the Debian packages:$want" >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
  has sudo || { echo "Missing packages:$want. Run as root, or install sudo." >&2; exit 1; }
  sudo=sudo
fi
echo "Installing system packages:$want"
$sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $want
