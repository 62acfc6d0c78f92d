#!/bin/sh
# Writes what an image consists of into a folder; the Dockerfile runs this while it builds. usage: sbom.sh FOLDER
#
#   python.cdx.json   Slipstream and its Python packages, as CycloneDX
#   debian.tsv        Debian's packages: name, version, architecture, source package
#   constraints.txt   the Python packages' versions, for `pip install --constraint` in an image of your own

set -eu
folder=${1:?the folder to write to}
mkdir -p "$folder"
/opt/sbom/bin/cyclonedx-py environment --output-format=JSON --output-file="$folder/python.cdx.json" /opt/venv/bin/python
# dpkg-query itself replaces ${...}.
# shellcheck disable=SC2016
dpkg-query --show --showformat='${Package}\t${Version}\t${Architecture}\t${source:Package}\n' >"$folder/debian.tsv"
/opt/venv/bin/pip list --format=freeze --exclude=slipstream --exclude=pip --disable-pip-version-check >"$folder/constraints.txt"
