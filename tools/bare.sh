#!/usr/bin/env bash
# The bare-machine proof: `make demo` and `make test` of the committed files in an empty Debian 12 tree.
#
#   bare.sh [--smoke] [--keep] [--tree DIR]     as root; needs debootstrap
#     --smoke   stop before the project: the tree comes up, apt and pip work inside
#     --keep    leave the tree behind (with its logs)
#     --tree    where it goes; default a folder under TMPDIR
#
# Ends with one line a command, exit 1 when any failed. What the tree holds at first is Debian's minimal set plus what the
# README asks for: git, make and Python. All else is the project's own set-up.
#
# Nothing about the host is written here: Debian mirrors come from the host's apt, package indexes from its pip, at run time.
# Folders that pip's settings name are bound read-only. Mounts live in a mount namespace of their own, so they end with it,
# and what removes the tree never sees them.
set -euo pipefail
suite=bookworm
top=$(cd "$(dirname "$0")/.." && pwd)
smoke=0 keep=0 tree=
while [ $# -gt 0 ]; do
  case $1 in
    --smoke) smoke=1 ;;
    --keep) keep=1 ;;
    --tree) tree=${2:?--tree wants a folder}; shift ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
  shift
done

say() { printf '%s\n' "$*"; }
die() { printf 'bare.sh: %s\n' "$*" >&2; exit 2; }
inside() { chroot "$tree" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/bare LANG=C.UTF-8 "${settings[@]}" "$@"; }

# step NAME COMMAND...: runs inside, output to a log, one line about it.
failed=0
step() {
  local name=$1 start=$SECONDS log rc=0
  shift
  log="$logs/${name// /-}.log"
  inside "$@" >"$log" 2>&1 || rc=$?
  if [ $rc = 0 ]; then say "$name: pass, $((SECONDS - start)) s: $(tail -n 1 "$log")"
  else say "$name: FAIL ($rc), $((SECONDS - start)) s: $(tail -n 1 "$log") [$log]"; tail -n 40 "$log" >&2; failed=1
  fi
  return $rc
}

# ---- outer half: checks, the namespace, and removal ----
if [ -z "${TENON_BARE_INNER:-}" ]; then
  [ "$(id -u)" = 0 ] || die "needs root (debootstrap, chroot)"
  for c in debootstrap unshare chroot apt-get git; do command -v $c >/dev/null || die "needs $c"; done
  if [ -z "$tree" ]; then tree=$(mktemp -d "${TMPDIR:-/tmp}/tenon-bare.XXXXXX")
  else mkdir -p "$tree"; [ -z "$(ls -A "$tree")" ] || die "$tree is not empty"
  fi
  tree=$(cd "$tree" && pwd)
  chmod 755 "$tree" # apt drops to a user of its own
  rc=0
  TENON_BARE_INNER=1 SMOKE=$smoke unshare --mount --propagation private "$0" --tree "$tree" || rc=$?
  if [ $keep = 1 ]; then say "kept: $tree"
  else
    [ $rc = 0 ] || { mkdir -p "$top/build"; cp -r "$tree/var/log/bare" "$top/build/bare-logs" 2>/dev/null && say "logs: build/bare-logs"; }
    rm -rf --one-file-system "$tree"
  fi
  exit $rc
fi

# ---- inner half ----
smoke=$SMOKE
settings=()
for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do [ -z "${!v:-}" ] || settings+=("$v=${!v}"); done

# Debian: repositories as the host's apt reads them, "uri suite component" a line.
repos=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | awk -v s=$suite '$2 ~ "^" s' | sort -u)
mirror=$(awk -v s=$suite '$2 == s { print $1; exit }' <<<"$repos")
[ -n "$mirror" ] || die "the host's apt knows no $suite repository"
start=$SECONDS
debootstrap --variant=minbase --include=git,make,python3,ca-certificates $suite "$tree" "$mirror" >"$tree.log" 2>&1 || { tail -n 20 "$tree.log" >&2; die "debootstrap failed"; }
logs=$tree/var/log/bare
mkdir -p "$logs" "$tree/home/bare"
mv "$tree.log" "$logs/debootstrap.log"
say "tree: pass, $((SECONDS - start)) s: Debian $(cat "$tree/etc/debian_version"), $(du -sm --one-file-system "$tree" | cut -f1) MiB, $(inside python3 --version)"
sed 's/^/deb /' <<<"$repos" >"$tree/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|Check|Retries|Queue)' | grep -v ' "";$' >"$tree/etc/apt/apt.conf.d/99host" || true
for f in resolv.conf hosts; do [ ! -e /etc/$f ] || cp --dereference /etc/$f "$tree/etc/$f"; done

mount -t proc proc "$tree/proc"
for d in null zero random urandom full tty; do
  [ -c "$tree/dev/$d" ] || { touch "$tree/dev/$d"; mount --bind "/dev/$d" "$tree/dev/$d"; }
done
mkdir -p "$tree/dev/shm"
mount -t tmpfs tmpfs "$tree/dev/shm"
chmod 1777 "$tree/dev/shm"

# pip: what `pip config list` says becomes PIP_* variables. Folders are bound at their place, files copied.
pip=$(command -v pip3 || command -v pip || true)
declare -A option=()
if [ -n "$pip" ]; then
  while IFS='=' read -r key value; do
    key=${key##*.}; value=${value#\'}; value=${value%\'}
    option[$key]=${value//\\n/ }
  done < <("$pip" config list 2>/dev/null)
fi
for key in "${!option[@]}"; do
  words=()
  for word in ${option[$key]}; do
    path=${word#file://}
    if [[ $path == /* && -d $path ]]; then
      # Pages of an index folder (…/simple) name files beside it: its parent is bound. A folder below one that is bound already needs nothing.
      [ "${path##*/}" != simple ] || path=${path%/*}
      [ -e "$tree$path" ] || { mkdir -p "$tree$path"; mount --bind -o ro "$path" "$tree$path"; mount -o remount,bind,ro "$tree$path"; }
    elif [[ $path == /* && -f $path ]]; then
      mkdir -p "$tree/home/bare/host"
      cp --dereference "$path" "$tree/home/bare/host/$key"
      word=/home/bare/host/$key
    fi
    words+=("$word")
  done
  name=PIP_$(tr 'a-z-' 'A-Z_' <<<"$key")
  settings+=("$name=${words[*]}")
  # Other clients of the same registry trust the same certificate file.
  [ "$key" != cert ] || settings+=("SSL_CERT_FILE=${words[*]}" "REQUESTS_CA_BUNDLE=${words[*]}")
done

if [ "$smoke" = 1 ]; then
  step "apt update" apt-get update -q || exit 1
  step "apt install" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv || exit 1
  step "pip config" sh -c 'python3 -m venv /home/bare/venv && /home/bare/venv/bin/pip config list' || exit 1
  pin=$(grep -m 1 '^pytest' "$top/requirements.txt")
  step "pip install" sh -c "/home/bare/venv/bin/pip install -q --no-deps $pin && /home/bare/venv/bin/pip list" || exit 1
  exit 0
fi

mkdir -p "$tree/home/bare/tenon"
git -C "$top" archive HEAD | tar -x -C "$tree/home/bare/tenon"
say "project: commit $(git -C "$top" rev-parse --short HEAD)"
step "make demo" make -C /home/bare/tenon demo || true
step "make test" make -C /home/bare/tenon test || true
exit $failed
