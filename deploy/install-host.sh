#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that a host needs, if any are missing. Starts no service.
#
#   deploy/install-host.sh python     what a virtual environment needs
#   deploy/install-host.sh runtime    + what runs containers
#   deploy/install-host.sh demo       + what the demo and the benchmark use: a registry, a static busybox
#   deploy/install-host.sh peers      + what the benchmark measures beside: Docker
#   deploy/install-host.sh test       + what the tests use: openssl, and a browser to look at the Temporal Web UI
#
# On Debian and Ubuntu by apt, as root or with sudo. Elsewhere it says what to install, and fails.
set -euo pipefail

group="${1:-runtime}"
python="${PYTHON:-python3}"
PATH="$PATH:/usr/sbin:/sbin"

has() { command -v "$1" >/dev/null 2>&1; }
has_helper() { has "$1" || [ -x "/usr/lib/podman/$1" ] || [ -x "/usr/libexec/podman/$1" ]; }
has_static_busybox() { has busybox && ! ldd "$(command -v busybox)" >/dev/null 2>&1; }
has_browser() { has chromium || has google-chrome; }
has_venv() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }

missing=()
need() { # need PACKAGE CHECK...
    local package="$1"
    shift
    "$@" || missing+=("$package")
}

case "$group" in python | runtime | demo | peers | test) ;; *)
    echo "error: unknown group '$group'" >&2
    echo "hint: one of python, runtime, demo, peers, test" >&2
    exit 2
    ;;
esac

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "error: Python 3.11 or later is needed, and '$python' is not" >&2
    echo "hint: install it, or name it: make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi
need python3-venv has_venv

if [ "$group" != python ]; then
    need podman has podman
    need runc has runc
    need netavark has_helper netavark
    need aardvark-dns has_helper aardvark-dns
    need iptables has iptables # netavark calls it, and no package depends on it
    if [ "$(id -u)" != 0 ]; then
        need uidmap has newuidmap
        need slirp4netns has slirp4netns
    fi
fi
if [ "$group" = demo ] || [ "$group" = peers ] || [ "$group" = test ]; then
    need docker-registry has docker-registry
    need busybox-static has_static_busybox
fi
if [ "$group" = peers ]; then
    need docker.io has dockerd
fi
if [ "$group" = test ]; then
    need openssl has openssl
    need chromium has_browser
fi

[ ${#missing[@]} -gt 0 ] || exit 0

if ! has apt-get; then
    echo "error: missing: ${missing[*]} (names of Debian packages)" >&2
    echo "hint: install them with this system's package manager, then run the same command again" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! has sudo; then
        echo "error: missing: ${missing[*]}, and neither root nor sudo is at hand to install them" >&2
        echo "hint: as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

# docker-registry would start a service on port 5000, podman a socket, Docker its daemon: none of these is ours to start.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi

echo "installing: ${missing[*]}" >&2
log="$(mktemp)"
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; }
if ! install >"$log" 2>&1 && ! { "${as_root[@]}" apt-get update && install; } >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "error: apt-get could not install: ${missing[*]}" >&2
    echo "hint: the whole log is in $log" >&2
    exit 1
fi
rm -f "$log"

if has systemctl; then
    if [[ " ${missing[*]} " == *" docker-registry "* ]]; then
        "${as_root[@]}" systemctl disable docker-registry >/dev/null 2>&1 ||
            echo "note: docker-registry's own service could not be disabled; it will listen on port 5000 after a reboot" >&2
    fi
    if [[ " ${missing[*]} " == *" docker.io "* ]]; then
        "${as_root[@]}" systemctl disable docker.service docker.socket containerd.service >/dev/null 2>&1 ||
            echo "note: Docker's own services could not be disabled; they will run after a reboot" >&2
    fi
fi
