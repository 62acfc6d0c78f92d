#!/usr/bin/env bash
# Makes the certificates with which the roles of a run know each other (docs/security.md). Needs openssl, and no root.
set -euo pipefail

usage() {
  cat <<'TEXT'
certificates.sh ca FOLDER [DAYS]            make a new CA and its empty list of revoked certificates
certificates.sh server FOLDER NAME ...      make the server's certificate, for these host names and IP addresses
certificates.sh role FOLDER NAME ...        make a certificate for each name, such as learner, actor-1, alice
certificates.sh revoke FOLDER NAME ...      take the right of these certificates away, and write the list again
certificates.sh list FOLDER                 show all certificates: V valid, R revoked, E expired

FOLDER then holds
  ca.crt                  for everybody: --tls_ca
  crl.pem                 for the server: --tls_crl
  NAME.crt and NAME.key   for one role alone: --tls_cert and --tls_key; the server's are server.crt and server.key
  ca.key and ca/          for nobody: whoever has ca.key can let anyone in

Certificates are valid for DAYS days (environment variable; 365), a CA and its list for ten years unless DAYS is given. To
renew a certificate, make it again; the old one stays valid until it expires or is revoked.
TEXT
}

fail() {
  echo "$*" >&2
  exit 2
}

check_name() {
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9_.-]*$ ]] || fail "The name '$1' is not valid: use letters, digits, '_', '-' and '.'."
  case $1 in ca | crl) fail "The name '$1' is taken by the CA's own files: choose another one." ;; esac
}

require_ca() {
  [[ -f ca.key && -f ca/openssl.cnf ]] || fail "There is no CA in $folder: make one with 'certificates.sh ca $folder'."
}

write_crl() {
  openssl ca -config ca/openssl.cnf -gencrl -out crl.pem.new 2>ca/log || fail "$(<ca/log)"
  mv crl.pem.new crl.pem # At once: a server that runs reads it as soon as it changes.
}

make_ca() {
  local days=${1:-3650}
  [[ ! -e ca.key ]] || fail "There is a CA in $folder already: choose another folder."
  mkdir -p ca/issued
  : >ca/index.txt
  echo 01 >ca/crlnumber
  cat >ca/openssl.cnf <<TEXT
[ca]
default_ca = slipstream
[slipstream]
database = ca/index.txt
new_certs_dir = ca/issued
certificate = ca.crt
private_key = ca.key
crlnumber = ca/crlnumber
rand_serial = yes
unique_subject = no
default_md = sha256
default_crl_days = $days
policy = subject
[subject]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:true, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
TEXT
  openssl req -x509 -config ca/openssl.cnf -extensions authority -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -subj "/CN=Slipstream CA $(openssl rand -hex 4)" -days "$days" -keyout ca.key -out ca.crt 2>ca/log || fail "$(<ca/log)"
  write_crl
}

# make_certificate NAME USAGE [SUBJECT_ALTERNATIVE_NAMES]
make_certificate() {
  local name=$1 usage=$2 names=${3:-}
  {
    echo "basicConstraints = critical, CA:false"
    echo "keyUsage = critical, digitalSignature"
    echo "extendedKeyUsage = $usage"
    echo "authorityKeyIdentifier = keyid"
    [[ -z $names ]] || echo "subjectAltName = $names"
  } >ca/extensions
  openssl req -new -config ca/openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
    -keyout "$name.key.new" -out ca/request 2>ca/log || fail "$(<ca/log)"
  openssl ca -batch -config ca/openssl.cnf -extfile ca/extensions -notext -days "${DAYS:-365}" -in ca/request \
    -out "$name.crt.new" 2>ca/log || fail "$(<ca/log)"
  mv "$name.key.new" "$name.key"
  mv "$name.crt.new" "$name.crt"
  rm ca/request ca/extensions
}

alternative_names() {
  local host names=()
  for host in "$@"; do
    if [[ $host =~ ^[0-9.]+$ || $host == *:* ]]; then names+=("IP:$host"); else names+=("DNS:$host"); fi
  done
  local IFS=,
  echo "${names[*]}"
}

revoke() {
  [[ -f $1.crt ]] || fail "There is no certificate $folder/$1.crt: see 'certificates.sh list $folder'."
  # Earlier certificates of this name may still be valid, so all of them are revoked.
  local serial serials
  mapfile -t serials < <(awk -F'\t' -v subject="/CN=$1" '$1 == "V" && $6 == subject { print $4 }' ca/index.txt)
  for serial in "${serials[@]}"; do
    openssl ca -config ca/openssl.cnf -revoke "ca/issued/$serial.pem" 2>ca/log || fail "$(<ca/log)"
  done
}

list() {
  openssl ca -config ca/openssl.cnf -updatedb 2>ca/log || fail "$(<ca/log)"
  cut -f 1,2,4,6 ca/index.txt
}

[[ $# -ge 2 ]] || {
  usage
  exit 2
}
command=$1 folder=$2
shift 2
umask 077
case $command in
  ca) mkdir -p "$folder" ;;
  server | role | revoke) [[ $# -ge 1 ]] || fail "No name is given: write 'certificates.sh $command $folder NAME'." ;;
  list) ;;
  *) fail "There is no command '$command': write 'certificates.sh' for help." ;;
esac
[[ -d $folder ]] || fail "There is no folder $folder: make a CA in it with 'certificates.sh ca $folder'."
cd "$folder"
[[ $command == ca ]] || require_ca
case $command in
  ca) make_ca "$@" ;;
  server) make_certificate server serverAuth "$(alternative_names "$@")" ;;
  role)
    for name in "$@"; do
      check_name "$name"
      [[ $name != server ]] || fail "The name 'server' is taken: make its certificate with 'certificates.sh server'."
      make_certificate "$name" clientAuth
    done
    ;;
  revoke)
    for name in "$@"; do revoke "$name"; done
    write_crl
    ;;
  list) list ;;
esac
