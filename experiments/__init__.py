"""The papers' experiments: methods x seeds on one world -> curves, a table, a picture."""
