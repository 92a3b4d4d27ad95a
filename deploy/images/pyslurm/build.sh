#!/bin/sh
# Builds pyslurm 25.11.2 for the Slurm of this file tree, with its own Python, into the venv /opt/pyslurm.
# Wants gcc, python3-dev, python3-venv and Slurm's headers; REQUIREMENTS are the hash-locked lists.
# A newer Slurm keeps 25.11's functions behind SLURM_BACKWARD_COMPAT; three names it dropped are given back.
set -eu
requirements=$1
venv=/opt/pyslurm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

headers=${SLURM_HEADERS:-/usr/include}
libraries=${SLURM_LIBRARIES:-$(dirname "$(find /usr/lib /usr/lib64 -name libslurmfull.so -print -quit)")}
mkdir "$work/include"
cp -r "$headers/slurm" "$work/include/slurm"
sed -i 's/^\(#define SLURM_VERSION_NUMBER\) .*/\1 0x190b02/' "$work/include/slurm/slurm_version.h"
cat > "$work/compat.h" <<'EOF'
#define SLURM_BACKWARD_COMPAT
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY 2031
#define slurm_free_ctl_conf(conf) ((void)(conf))
EOF

python3 -m venv "$venv"
"$venv/bin/pip" install --require-hashes --only-binary=:all: -r "$requirements/build.txt"
SLURM_INCLUDE_DIR="$work/include" SLURM_LIB_DIR="$libraries" \
CFLAGS="-O1 -g0 -include $work/compat.h" LDFLAGS="-Wl,-rpath,$libraries" \
  "$venv/bin/pip" install --require-hashes --no-deps --no-build-isolation --no-binary=:all: -r "$requirements/pyslurm.txt"
"$venv/bin/pip" uninstall --yes Cython setuptools wheel packaging
