"""Mistakes about servers: addresses, what answers there, and the roles that join."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "learn",
    "No --server is given: write --server=host:port of a running replay server.",
  ),
  (
    "learn --server=somewhere",
    "The server address 'somewhere' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "learn --server=localhost:0",
    "The server address 'localhost:0' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "learn --server=localhost:²",
    "The server address 'localhost:²' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "learn --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "learn --server=no-such-host.invalid:8000",
    "No replay server answers at no-such-host.invalid:8000 (waited 0.2 s): start one with 'slipstream serve', or "
    "check the host, the port and the firewall.",
  ),
  (
    "learn --server=localhost:SILENT",
    "No replay server answers at localhost:SILENT (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "learn --server=localhost:FOREIGN",
    "The server at localhost:FOREIGN has no table 'run', so it is no Slipstream server of this version: check the "
    "address, or use one release on both sides.",
  ),
  (
    "learn --server=localhost:THEIRS",
    "The server at localhost:THEIRS has a table 'run' that holds no manifest of Slipstream's: name the address of a Slipstream "
    "server.",
  ),
  (
    "learn --server=localhost:BARE",
    "The server at localhost:BARE still starts, or writes a checkpoint, after 0.2 s: try again, and then see its log.",
  ),
  (
    "learn --server=localhost:INLINE",
    "Run run at localhost:INLINE is an inline run, which nobody can join: start it without --inline.",
  ),
  (
    "learn --server=localhost:VERSION_2",
    "The server's data have layout version 2 and this installation writes 4: use the same release of slipstream on "
    "both sides.",
  ),
  (
    "learn --server=localhost:RUNNING --run_dir=file",
    "The run directory TMP/file cannot be written (File exists: TMP/file): choose another place with --run_dir.",
  ),
  (
    "learn --server=localhost:RUNNING --run_root=file",
    "The run directory file/run/run cannot be written (Not a directory: file/run/run): choose another place with "
    "--run_root.",
  ),
  (
    "learn --server=localhost:RUNNING --device=GPU:9",
    "TensorFlow sees no device 'GPU:9', only CPU:0: choose one, or leave learner.device empty.",
  ),
  (
    "learn --server=localhost:RUNNING --config.seed=3",
    "'slipstream learn' takes no --config.* of its own: give it to 'train', 'serve' or 'events'.",
  ),
  (
    "act",
    "No --server is given: write --server=host:port of a running replay server.",
  ),
  (
    "act --server=localhost:99999",
    "The server address 'localhost:99999' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "act --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "act --server=localhost:FOREIGN",
    "The server at localhost:FOREIGN has no table 'run', so it is no Slipstream server of this version: check the "
    "address, or use one release on both sides.",
  ),
  (
    "act --server=localhost:INLINE",
    "Run run at localhost:INLINE is an inline run, which nobody can join: start it without --inline.",
  ),
  (
    "act --server=localhost:ELSEWHERE",
    "The environment, 'their_worlds:Maze', cannot be loaded: there is no module 'their_worlds', install its "
    "package or give its folder with --pythonpath.",
  ),
  (
    "act --server=localhost:OTHER_WORLD",
    "Environment 'CartPole-v1' gives observation as ('float32', (4,)) on this machine, but run run stores "
    "('float32', (3,)): install the version of the environment that the run uses.",
  ),
  (
    "act --server=localhost:RUNNING --index=-1",
    "--index is '-1': it must be a non-negative integer (see 'slipstream act --help').",
  ),
  (
    "act --server=localhost:RUNNING --index=first",
    "--index is 'first': it must be a non-negative integer (see 'slipstream act --help').",
  ),
  (
    "act --server=localhost:RUNNING --name=a/b",
    "Worker name 'a/b' is not valid: use letters, digits, '_', '-' and '.'.",
  ),
  (
    "act --server=localhost:RUNNING --config=three_rooms",
    "'slipstream act' has no flag --config: see 'slipstream act --help'.",
  ),
  (
    "act --server=localhost:RUNNING --pythonpath=file",
    "--pythonpath names TMP/file, which is not a folder: check the path.",
  ),
  (
    "attach",
    "No --server is given: write --server=host:port of a running replay server.",
  ),
  (
    "attach --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "attach --server=localhost:INLINE",
    "Run run at localhost:INLINE is an inline run, which nobody can join: start it without --inline.",
  ),
  (
    "attach --server=localhost:FOREIGN",
    "The server at localhost:FOREIGN has no table 'run', so it is no Slipstream server of this version: check the "
    "address, or use one release on both sides.",
  ),
  (
    "attach --server=localhost:RUNNING --actors=0",
    "--actors is '0': it must be a positive integer (see 'slipstream attach --help').",
  ),
  (
    "evaluate --server=somewhere",
    "The server address 'somewhere' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "evaluate --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "evaluate --server=localhost:INLINE",
    "Run run at localhost:INLINE is an inline run, which nobody can join: start it without --inline.",
  ),
  (
    "evaluate --server=localhost:ELSEWHERE",
    "The environment, 'their_worlds:Maze', cannot be loaded: there is no module 'their_worlds', install its "
    "package or give its folder with --pythonpath.",
  ),
  (
    "evaluate --server=localhost:OTHER_WORLD",
    "Environment 'CartPole-v1' gives observation as ('float32', (4,)) on this machine, but run run stores "
    "('float32', (3,)): install the version of the environment that the run uses.",
  ),
  (
    "evaluate --server=localhost:RUNNING --run_dir=file",
    "The run directory TMP/file cannot be written (File exists: TMP/file): choose another place with --run_dir.",
  ),
  (
    "evaluate --server=localhost:RUNNING --video",
    "--video has no effect with --server: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    "evaluate --server=localhost:RUNNING --episodes=3",
    "--episodes has no effect with --server: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    "status",
    "No --server is given: write --server=host:port of a running replay server.",
  ),
  (
    "status --server=somewhere",
    "The server address 'somewhere' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "status --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "status --server=localhost:FOREIGN",
    "The server at localhost:FOREIGN has no table 'status', so it is no Slipstream server of this version: check "
    "the address, or use one release on both sides.",
  ),
  (
    "status --server=localhost:BARE",
    "The server at localhost:BARE has no status after 0.2 s: see its log.",
  ),
  (
    "doctor --server=somewhere",
    "The server address 'somewhere' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "doctor here",
    "'here' is not a flag of 'slipstream doctor': flags begin with --.",
  ),
)

# The doctor prints a line for everything that it finds; these are those of what is wrong.
FINDINGS = (
  (
    "doctor --server=localhost:NOBODY",
    "address: localhost is reachable, but nobody listens on port NOBODY: start a server, or check the port.",
  ),
  (
    "doctor --server=no-such-host.invalid:8000",
    "address: the name 'no-such-host.invalid' is unknown here: check it, or write an IP address.",
  ),
  (
    "doctor --server=localhost:FOREIGN",
    "server: The server at localhost:FOREIGN has no table 'run', so it is no Slipstream server of this version: check the "
    "address, or use one release on both sides.",
  ),
  (
    "doctor --server=localhost:BARE",
    "server: the replay server starts, or writes a checkpoint: try again in a minute, and then see its log.",
  ),
  (
    "doctor --server=localhost:VERSION_2",
    "server: The server's data have layout version 2 and this installation writes 4: use the same release of slipstream on "
    "both sides.",
  ),
)
