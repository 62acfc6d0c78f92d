"""Mistakes with the files for TLS; `tls/` and `other/` are folders of two CAs, see `places.py`."""

_ACT = "act --server=localhost:NOBODY"
_OURS = "--tls_key=tls/alice.key --tls_ca=tls/ca.crt"

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    f"{_ACT} --tls_cert=file",
    "--tls_key is missing: TLS needs --tls_cert, --tls_key and --tls_ca together.",
  ),
  (
    "serve --config=three_rooms --tls_key=file --tls_ca=file",
    "--tls_cert is missing: TLS needs --tls_cert, --tls_key and --tls_ca together.",
  ),
  (
    "serve --config=three_rooms --tls_only",
    "--tls_only is for a server with TLS: add --tls_cert, --tls_key and --tls_ca, or leave it out.",
  ),
  (
    "serve --config=three_rooms --tls_crl=file",
    "--tls_crl is for a server with TLS: add --tls_cert, --tls_key and --tls_ca, or leave it out.",
  ),
  (
    "doctor --tls_cert=file",
    "--tls_cert is for a server: add --server=host:port, or leave it out.",
  ),
  (
    "evaluate --checkpoint=policy.npz --tls_ca=file",
    "--tls_ca has no effect with --checkpoint: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    f"{_ACT} --tls_cert=none.crt --tls_key=file --tls_ca=file",
    "--tls_cert: TMP/none.crt cannot be read (No such file or directory): check the path and who owns it.",
  ),
  (
    f"{_ACT} --tls_cert=file --tls_key=empty --tls_ca=file",
    "--tls_key: TMP/empty cannot be read (Is a directory): check the path and who owns it.",
  ),
  (
    f"{_ACT} --tls_cert=file --tls_key=file --tls_ca=file",
    "Others can read the key TMP/file (mode 0644): write 'chmod 600 TMP/file', and if they may have read it, revoke its "
    "certificate and make another one.",
  ),
  (
    f"{_ACT} --tls_cert=file --tls_key=secret --tls_ca=file",
    "--tls_cert: TMP/file holds no certificate in PEM form: see 'openssl x509'.",
  ),
  (
    f"{_ACT} --tls_cert=tls/ca.crt --tls_key=secret --tls_ca=file",
    "--tls_key: TMP/secret holds no private key in PEM form: see 'openssl pkey'.",
  ),
  (
    f"learn --server=localhost:NOBODY --tls_cert=tls/bob.crt {_OURS}",
    "The key TMP/tls/alice.key is not that of the certificate TMP/tls/bob.crt: name two files of one certificate.",
  ),
  (
    "status --server=localhost:NOBODY --tls_cert=tls/expired.crt --tls_key=tls/expired.key --tls_ca=tls/ca.crt",
    "The certificate TMP/tls/expired.crt has expired: make it again with docker/tls/certificates.sh.",
  ),
  (
    "stop --server=localhost:NOBODY --tls_cert=tls/early.crt --tls_key=tls/early.key --tls_ca=tls/ca.crt",
    "The certificate TMP/tls/early.crt is not valid yet: check this machine's clock, or make it again.",
  ),
  (
    "attach --server=localhost:NOBODY --tls_cert=other/mallory.crt --tls_key=other/mallory.key --tls_ca=tls/ca.crt",
    "The certificate TMP/other/mallory.crt is not of the CA TMP/tls/ca.crt (unable to get local issuer certificate): name the CA "
    "that has issued it.",
  ),
  (
    "snapshot --server=localhost:NOBODY --tls_cert=tls/server.crt --tls_key=tls/server.key --tls_ca=tls/ca.crt",
    "The certificate TMP/tls/server.crt is a server's, and this role joins one: make its own with "
    "'docker/tls/certificates.sh role'.",
  ),
  (
    f"serve --config=three_rooms --tls_cert=tls/alice.crt {_OURS}",
    "The certificate TMP/tls/alice.crt is not a server's: make one with 'docker/tls/certificates.sh server', with the names that "
    "roles use.",
  ),
  (
    "serve --config=three_rooms --tls_cert=tls/server.crt --tls_key=tls/server.key --tls_ca=tls/ca.crt --tls_crl=other/crl.pem",
    "The list of revoked certificates TMP/other/crl.pem is not of the CA (TMP/tls/ca.crt): write it again with "
    "'docker/tls/certificates.sh revoke', or check this machine's clock.",
  ),
  (
    "serve --config=three_rooms --tls_cert=tls/server.crt --tls_key=tls/server.key --tls_ca=tls/ca.crt --tls_crl=file",
    "--tls_crl: TMP/file holds no list of revoked certificates in PEM form: name the CA's crl.pem.",
  ),
)
