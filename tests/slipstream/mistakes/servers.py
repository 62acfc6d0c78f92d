"""Mistakes about servers: addresses, what answers there, and the roles that join."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "serve --config=three_rooms --port=0 --run_dir=runs/new --metrics_port=SILENT",
    "Port SILENT is in use, so nobody could read the metrics: end wh"
    "at listens there, or choose another port with --metrics_port.",
  ),
  (
    "learn --server=localhost:RUNNING --metrics_port=SILENT",
    "Port SILENT is in use, so nobody could read the metrics: end wh"
    "at listens there, or choose another port with --metrics_port.",
  ),
  (
    "act --server=localhost:RUNNING --metrics_port=SILENT",
    "Port SILENT is in use, so nobody could read the metrics: end wh"
    "at listens there, or choose another port with --metrics_port.",
  ),
  (
    "evaluate --server=localhost:RUNNING --metrics_port=SILENT",
    "Port SILENT is in use, so nobody could read the metrics: end wh"
    "at listens there, or choose another port with --metrics_port.",
  ),
  (
    "act --server=localhost:RUNNING --metrics_port=70000",
    "--metrics_port is 70000, which does not exist: use one from 1 to 65535, or 0 for a free one.",
  ),
  (
    "act --server=localhost:RUNNING --metrics_port=http",
    "--metrics_port is 'http': it must be an integer (see 'slipstream act --help').",
  ),
  (
    "serve --config=three_rooms --port=9464 --metrics_port=9464",
    "--port and --metrics_port are both 9464: give one of them another port.",
  ),
  (
    "evaluate --checkpoint=policy.npz --metrics_port=9464",
    "--metrics_port has no effect with --checkpoint: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    "learn",
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
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
    "The server's data have layout version 2 and this installation writes 6: use the same release of slipstream on "
    "both sides.",
  ),
  (
    "act --server=localhost:NOBODY --index=3 --host_index",
    "Both --index and --host_index are given: leave one of them out.",
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
    "learn --server=@",
    "--server=@ names no run directory: write --server=@RUN_DIR, or --server=host:port.",
  ),
  (
    "act --server=@empty",
    "TMP/empty is not a run directory (waited 0.2 s): check the path, or begin a run there with 'slipstream serve "
    "--run_dir=TMP/empty'.",
  ),
  (
    "evaluate --server=@nowhere",
    "TMP/nowhere is not a run directory (waited 0.2 s): check the path, or begin a run there with 'slipstream serve "
    "--run_dir=TMP/nowhere'.",
  ),
  (
    "status --server=@renamed/another_name",
    "The run in TMP/renamed/another_name has no server (waited 0.2 s): start it with 'slipstream serve "
    "--run_dir=TMP/renamed/another_name'.",
  ),
  (
    "doctor --server=@renamed/another_name",
    "The run in TMP/renamed/another_name has no server: start it with 'slipstream serve --run_dir=TMP/renamed/another_name'.",
  ),
  (
    "act",
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
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
    "The run's config names the environment 'their_worlds:Maze', and the module their_worlds may not be imported for "
    "it: if you trust whoever serves the run, give its folder with --pythonpath, or, if it is installed, "
    "--allow_module=their_worlds.",
  ),
  (
    "act --server=localhost:ELSEWHERE --allow_module=their_worlds",
    "The environment, 'their_worlds:Maze', cannot be loaded: there is no module 'their_worlds', install its "
    "package or give its folder with --pythonpath.",
  ),
  (
    "evaluate --server=localhost:ELSEWHERE --allow_module=ours",
    "The run's config names the environment 'their_worlds:Maze', and the module their_worlds may not be imported for "
    "it: if you trust whoever serves the run, give its folder with --pythonpath, or, if it is installed, "
    "--allow_module=their_worlds.",
  ),
  (
    "attach --server=localhost:ELSEWHERE",
    "The run's config names the environment 'their_worlds:Maze', and the module their_worlds may not be imported for "
    "it: if you trust whoever serves the run, give its folder with --pythonpath, or, if it is installed, "
    "--allow_module=their_worlds.",
  ),
  (
    "act --server=localhost:OTHER_WORLD",
    "Environment 'CartPole-v1' gives observation as ('float32', (4,)) on this machine, but run run stores "
    "('float32', (3,)): install the version of the environment that the run uses.",
  ),
  (
    "act --server=localhost:OTHER_WORLD --environment.sutton_barto_reward=true",
    "Environment 'CartPole-v1' with the arguments {'sutton_barto_reward': True} gives observation as ('float32', (4,)), but the "
    "run stores ('float32', (3,)): leave out those that change its spaces.",
  ),
  (
    "act --server=localhost:RUNNING --environment.rom_size=3",
    "The environment 'three_rooms' has no argument 'rom_size': did you mean 'room_size'?",
  ),
  (
    "evaluate --server=localhost:RUNNING --environment.room_size=1",
    "three_rooms has the room_size 1: it must be a whole number from 2 to 400.",
  ),
  (
    "act --server=localhost:RUNNING --environment.room_size",
    "--environment.room_size has no value: write --environment.room_size=VALUE.",
  ),
  (
    "act --server=localhost:RUNNING --environment.room.size=3",
    "--environment.room.size names no argument of an environment: write --environment.NAME=VALUE.",
  ),
  (
    "act --server=localhost:RUNNING --environment.room_size='{1, 2}'",
    "The config holds a value that is not JSON (Object of type set is not JSON serializable): use numbers, strings, lists and "
    "dicts.",
  ),
  (
    "attach --server=localhost:RUNNING --environment.room_size=os:mkdir",
    "The run's config names an argument of the environment 'os:mkdir', and the module os may not be imported for it: if you "
    "trust whoever serves the run, give its folder with --pythonpath, or, if it is installed, --allow_module=os.",
  ),
  (
    "learn --server=localhost:RUNNING --environment.room_size=3",
    "'slipstream learn' takes no --environment.*: set environment.arguments in the config "
    "(--config.environment.arguments.NAME=VALUE of 'train'), or give it to 'act', 'attach' or 'evaluate'.",
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
    "JOB_COMPLETION_INDEX=first act --server=localhost:RUNNING",
    "The environment variable JOB_COMPLETION_INDEX is 'first', and a worker's index is a whole number from 0 on: correct it, or "
    "give --index.",
  ),
  (
    "JOB_COMPLETION_INDEX= SLURM_PROCID=1 act --server=localhost:RUNNING",
    "The environment variable JOB_COMPLETION_INDEX is '', and a worker's index is a whole number from 0 on: correct it, or give "
    "--index.",
  ),
  (
    "SLURM_ARRAY_TASK_ID=-1 act --server=localhost:RUNNING",
    "The environment variable SLURM_ARRAY_TASK_ID is '-1', and a worker's index is a whole number from 0 on: correct it, or give "
    "--index.",
  ),
  (
    "SLURM_PROCID=2.5 act --server=localhost:RUNNING",
    "The environment variable SLURM_PROCID is '2.5', and a worker's index is a whole number from 0 on: correct it, or give "
    "--index.",
  ),
  (
    "SLURM_PROCID=2.5 act --server=localhost:RUNNING --index=0 --name=a/c",
    "Worker name 'a/c' is not valid: use letters, digits, '_', '-' and '.'.",
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
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
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
    "evaluate --server=localhost:ELSEWHERE --allow_module=their_worlds",
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
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
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
    "stop",
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
  ),
  (
    "stop --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "stop --server=localhost:FOREIGN",
    "The server at localhost:FOREIGN has no table 'status', so it is no Slipstream server of this version: check "
    "the address, or use one release on both sides.",
  ),
  (
    "stop --server=localhost:BARE --yes",
    "The server at localhost:BARE has no status after 0.2 s: see its log.",
  ),
  (
    "stop --server=somewhere",
    "The server address 'somewhere' is not valid: write host:port, as in localhost:8000.",
  ),
  (
    "snapshot",
    "No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.",
  ),
  (
    "snapshot --server=localhost:NOBODY",
    "No replay server answers at localhost:NOBODY (waited 0.2 s): start one with 'slipstream serve', or check the "
    "host, the port and the firewall.",
  ),
  (
    "snapshot --server=localhost:BARE",
    "The server at localhost:BARE has no status after 0.2 s: see its log.",
  ),
  (
    "act --server=localhost:RUNNING --server_timeout=-1",
    "--server_timeout is '-1': it must be a non-negative number (see 'slipstream act --help').",
  ),
  (
    "evaluate --checkpoint=policy.npz --server_timeout=5",
    "--server_timeout has no effect with --checkpoint: leave it out (see 'slipstream evaluate --help').",
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
    "server: The server's data have layout version 2 and this installation writes 6: use the same release of slipstream on "
    "both sides.",
  ),
)
