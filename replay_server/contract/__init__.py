"""What everyone imports: rows, tables, manifest, messages, and the connection to a server."""
