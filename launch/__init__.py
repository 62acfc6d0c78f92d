"""The Launchpad program, the roles' entry points, and the command line."""
