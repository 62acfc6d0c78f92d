"""Mistakes about runs and policies: where they are kept, resuming, playing, exporting, looking at events."""

from replay_server.contract.layout import LAYOUT_VERSION

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "train --config=three_rooms --port=-1",
    "The port -1 does not exist: use one from 1 to 65535, or 0 for a free one.",
  ),
  (
    "train --config=three_rooms --port=70000",
    "The port 70000 does not exist: use one from 1 to 65535, or 0 for a free one.",
  ),
  (
    "train --config=three_rooms --port=SILENT",
    "Port SILENT is in use: stop the process that listens there, or choose another port with --port.",
  ),
  (
    "train --config=three_rooms --pythonpath=file",
    "--pythonpath names TMP/file, which is not a folder: check the path.",
  ),
  (
    "train --config=three_rooms --run_root=file",
    "The run directory TMP/file/three_rooms/RUN_ID cannot be written (Not a directory): choose another place with "
    "--run_root.",
  ),
  (
    "train --config=three_rooms --run_root=/proc/runs",
    "The run directory /proc/runs/three_rooms/RUN_ID cannot be written (No such file or directory): choose another "
    "place with --run_root.",
  ),
  (
    "train --config=three_rooms --resume=runs/three_rooms/FINISHED",
    "Both --config and --resume are given: a resumed run has its config; change it with --config.KEY=VALUE.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --method=uniform",
    "Both --method and --resume are given: a resumed run has its method.",
  ),
  (
    "train --resume=missing",
    "TMP/missing is not a run directory (it has no config.json): name one below runs/.",
  ),
  (
    "train --resume=file",
    "TMP/file is not a run directory (it has no config.json): name one below runs/.",
  ),
  (
    "train --resume=empty",
    "TMP/empty is not a run directory (it has no config.json): name one below runs/.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED",
    "Run FINISHED has taken 400 environment steps, and its budget is 400: give it more with "
    "--config.environment_steps.",
  ),
  (
    "train --resume=config_is_begun/FINISHED",
    "The config file TMP/config_is_begun/FINISHED/config.json is not JSON (Expecting property name enclosed in "
    "double quotes: line 1 column 2 (char 1)): correct it, or write one with --print_config.",
  ),
  (
    "train --resume=config_is_bytes/FINISHED",
    "The config file TMP/config_is_bytes/FINISHED/config.json is not UTF-8 text: save it as UTF-8.",
  ),
  (
    "train --resume=status_is_begun/FINISHED --config.environment_steps=500",
    "TMP/status_is_begun/FINISHED/status.json cannot be read (Expecting property name enclosed in double quotes: "
    "line 1 column 2 (char 1)): remove it to resume without the run's earlier counts.",
  ),
  (
    "train --resume=logs_is_a_file/FINISHED",
    "The run directory TMP/logs_is_a_file/FINISHED cannot be written (File exists: "
    "TMP/logs_is_a_file/FINISHED/logs): make it a folder that you may write, or resume a copy of it.",
  ),
  (
    "train --resume=learner_is_a_file/FINISHED",
    "The run directory TMP/learner_is_a_file/FINISHED cannot be written (Not a directory: "
    "TMP/learner_is_a_file/FINISHED/checkpoints/learner): make it a folder that you may write, or resume a copy of "
    "it.",
  ),
  (
    "train --resume=lock_is_a_folder/FINISHED --config.environment_steps=500 --inline --quiet",
    "The lock TMP/lock_is_a_folder/FINISHED/checkpoints/replay.lock cannot be opened (Is a directory): let it be a "
    "file that you may write.",
  ),
  (
    "train --resume=no_tables/FINISHED",
    "Run FINISHED ended before its tables were checkpointed, so it cannot be resumed: start a new one.",
  ),
  (
    "train --resume=renamed/another_name --config.environment_steps=500 --inline --quiet",
    "The checkpoint belongs to run FINISHED, not to another_name: resume that run, or name another directory; "
    "nothing of it was changed.",
  ),
  (
    "train --resume=locked/FINISHED --config.environment_steps=500 --inline --quiet",
    "Another process serves the run of TMP/locked/FINISHED/checkpoints/replay: wait for its end, or use its address.",
  ),
  (
    "train --resume=networks_are_bytes/FINISHED --config.environment_steps=500 --inline --quiet",
    "No checkpoint of the learner in TMP/networks_are_bytes/FINISHED/checkpoints/learner is whole (checkpoint_1 is "
    "damaged: networks.data-00000-of-00001 has 4 bytes and had BYTES): put a copy of one there, or start a new run; "
    "nothing was changed.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --config.environment_steps=500 --config.replay.sampling=memory --inline --quiet",
    "The checkpoint's tables are those of replay.sampling=server and this config asks for replay.sampling=memory: resume with "
    "what the run had, or start a new run; nothing of it was changed.",
  ),
  (
    "train --resume=in_memory/three_rooms/IN_MEMORY --config.environment_steps=500 --config.replay.sampling=server --inline "
    "--quiet",
    "The checkpoint's tables are those of replay.sampling=memory and this config asks for replay.sampling=server: resume with "
    "what the run had, or start a new run; nothing of it was changed.",
  ),
  (
    "train --resume=rows_of_another_run/IN_MEMORY --config.environment_steps=500 --inline --quiet",
    "The replay memory's journal in TMP/rows_of_another_run/IN_MEMORY/checkpoints/learner/rows is of run RUN_ID, and this is "
    "run IN_MEMORY: use the directory of this run; nothing was changed.",
  ),
  (
    "train --resume=rows_of_another_layout/IN_MEMORY --config.environment_steps=500 --inline --quiet",
    "The replay memory's journal in TMP/rows_of_another_layout/IN_MEMORY/checkpoints/learner/rows has rows of another layout "
    "than this run's: resume with the config and the release that wrote it, or start a new run; nothing was changed.",
  ),
  (
    "train --resume=source_is_bytes/FINISHED --config.environment_steps=500 --inline --quiet",
    "No checkpoint of the learner in TMP/source_is_bytes/FINISHED/checkpoints/learner is whole (checkpoint_1 is "
    "damaged: source.npz has 4 bytes and had BYTES): put a copy of one there, or start a new run; nothing was changed.",
  ),
  (
    "train --resume=counters_are_bytes/FINISHED --config.environment_steps=500 --inline --quiet",
    "No checkpoint of the learner in TMP/counters_are_bytes/FINISHED/checkpoints/learner is whole (checkpoint_1 is "
    "damaged: counters.json has 4 bytes and had BYTES): put a copy of one there, or start a new run; nothing was "
    "changed.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --config.environment_steps=500 --inline --quiet "
    "--config.learner.algorithm=sac",
    "The environment has 3 discrete actions, but sac chooses continuous ones: use an environment with a Box of "
    "actions, or learner.algorithm 'ddqn'.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --config.environment_steps=500 --inline --quiet "
    "--config.network.hidden_sizes=[7]",
    "The networks of the learner's checkpoint in TMP/runs/three_rooms/FINISHED/checkpoints/learner are not those "
    "of the config: resume with the algorithm and the network that the run had; nothing was changed.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --config.environment_steps=500 --inline --quiet "
    "--config.replay.tables.done.capacity=7000",
    "The checkpoint's table 'done' has the capacity 6000 and this config asks for 7000 (its capacity, "
    "replay.capacity, its probability): Reverb keeps tables as they were checkpointed, so resume with what the run "
    "had, or start a new run; nothing of it was changed.",
  ),
  (
    "train --resume=runs/three_rooms/FINISHED --config.environment_steps=500 --inline --quiet "
    "--config.learner.device=GPU:9",
    "TensorFlow sees no device 'GPU:9', only CPU:0: choose one, or leave learner.device empty.",
  ),
  (
    "serve",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "serve --config=three_rooms --inline",
    "'slipstream serve' has no flag --inline: see 'slipstream serve --help'.",
  ),
  (
    "serve --config=three_rooms --port=SILENT",
    "Port SILENT is in use: stop the process that listens there, or choose another port with --port.",
  ),
  (
    "serve --config=three_rooms --run_root=file",
    "The run directory TMP/file/three_rooms/RUN_ID cannot be written (Not a directory): choose another place with "
    "--run_root.",
  ),
  (
    "serve --run_dir=logs_is_a_file/FINISHED --config.environment_steps=500",
    "The run directory TMP/logs_is_a_file/FINISHED cannot be written (File exists: "
    "TMP/logs_is_a_file/FINISHED/logs): make it a folder that you may write, or serve a copy of it.",
  ),
  (
    "serve --resume=runs/three_rooms/FINISHED",
    "'slipstream serve' has no flag --resume: see 'slipstream serve --help'.",
  ),
  (
    "serve --run_dir=empty",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "serve --config=three_rooms --run_dir=full",
    "TMP/full holds files, but no run: name a new or an empty folder, or a run directory, with --run_dir.",
  ),
  (
    "serve --config=three_rooms --run_dir=file",
    "The run directory TMP/file cannot be written (Not a directory): choose another place with --run_dir.",
  ),
  (
    "serve --config=three_rooms --run_dir=/proc/run",
    "The run directory /proc/run cannot be written (No such file or directory): choose another place with --run_dir.",
  ),
  (
    "serve --config=three_rooms '--run_dir=my run'",
    "Run name 'my run' is not valid: use letters, digits, '_', '-' and '.'.",
  ),
  (
    "serve --config=three_rooms --run_dir=empty --run_root=runs",
    "Both --run_dir and --run_root are given: --run_dir alone says where the run is.",
  ),
  (
    "serve --run_dir=runs/three_rooms/FINISHED --method=uniform",
    "--method is given without --config, and the run in --run_dir has its method: leave it out.",
  ),
  (
    "serve --config=cartpole --run_dir=runs/three_rooms/FINISHED",
    "The run in TMP/runs/three_rooms/FINISHED is of the config 'three_rooms', and --config is 'cartpole': name another "
    "--run_dir, or leave --config out.",
  ),
  (
    "serve --run_dir=config_is_begun/FINISHED",
    "The config file TMP/config_is_begun/FINISHED/config.json is not JSON (Expecting property name enclosed in "
    "double quotes: line 1 column 2 (char 1)): correct it, or write one with --print_config.",
  ),
  (
    "serve --run_dir=status_is_begun/FINISHED --config.environment_steps=500",
    "TMP/status_is_begun/FINISHED/status.json cannot be read (Expecting property name enclosed in double quotes: "
    "line 1 column 2 (char 1)): remove it to resume without the run's earlier counts.",
  ),
  (
    "serve --run_dir=locked/FINISHED --config.environment_steps=500",
    "Another process serves the run of TMP/locked/FINISHED/checkpoints/replay: wait for its end, or use its address.",
  ),
  (
    "evaluate",
    "Give either --checkpoint (to play a stored policy) or --server (to evaluate a running job).",
  ),
  (
    "evaluate --checkpoint=policy.npz --server=localhost:NOBODY",
    "Give either --checkpoint (to play a stored policy) or --server (to evaluate a running job).",
  ),
  (
    "evaluate --checkpoint=policy.npz --run_dir=empty",
    "--run_dir has no effect with --checkpoint: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    "evaluate --checkpoint=missing",
    "missing holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file.",
  ),
  (
    "evaluate --checkpoint=missing.npz",
    "missing.npz is not a policy file (No such file or directory): name a run directory or one of its "
    "checkpoints/policy/*.npz.",
  ),
  (
    "evaluate --checkpoint=file",
    "file holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file.",
  ),
  (
    "evaluate --checkpoint=empty",
    "empty holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file.",
  ),
  (
    "evaluate --checkpoint=text.npz",
    "text.npz is not a policy file (ValueError): name a run directory or one of its checkpoints/policy/*.npz.",
  ),
  (
    "evaluate --checkpoint=folder.npz",
    "folder.npz is not a policy file (Is a directory): name a run directory or one of its checkpoints/policy/*.npz.",
  ),
  (
    "evaluate --checkpoint=no_policy/FINISHED",
    "no_policy/FINISHED holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such "
    "a file.",
  ),
  (
    "evaluate --checkpoint=policies_are_bytes/FINISHED",
    "policies_are_bytes/FINISHED/checkpoints/policy/latest.npz is not a policy file (BadZipFile): name a run "
    "directory or one of its checkpoints/policy/*.npz.",
  ),
  (
    "evaluate --checkpoint=policy.npz --environment.rom_size=3",
    "The environment 'three_rooms' has no argument 'rom_size': did you mean 'room_size'?",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0 --export=model --environment.room_size=3",
    "--environment.* has no effect where nothing is played: leave it out, or give --episodes or --video.",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=-1",
    "--episodes is '-1': it must be a non-negative integer (see 'slipstream evaluate --help').",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=many",
    "--episodes is 'many': it must be a non-negative integer (see 'slipstream evaluate --help').",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0",
    "There is nothing to do with the policy: give --episodes, --video or --export.",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0 --export=file",
    "--export names file, which is a file: name a new folder.",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0 --export=file/model",
    "The SavedModel cannot be written to file/model (Not a directory): choose another folder with --export.",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0 --export=/proc/model",
    "The SavedModel cannot be written to /proc/model (No such file or directory): choose another folder with --export.",
  ),
  (
    "evaluate --checkpoint=policy.npz --episodes=0 --export=full",
    "--export names full, which holds other files: name a new folder, or empty this one.",
  ),
  (
    "evaluate --checkpoint=videos_is_a_file/FINISHED --episodes=0 --video",
    "The video cannot be written to videos_is_a_file/FINISHED/videos/policy_1.gif (File exists): make room, or "
    "copy the policy file to a folder that you may write.",
  ),
  (
    "events",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "events --config=three_rooms --steps=0",
    "--steps is '0': it must be a positive integer (see 'slipstream events --help').",
  ),
  (
    "events --config=three_rooms --out=proposed.json",
    "--out is for the config with proposed events: add --propose, or leave --out out.",
  ),
  (
    "events --config=three_rooms --propose=1 --json",
    "--json is for the report of events that there are: leave it out; --out writes proposed ones as JSON.",
  ),
  (
    "events --config=two_rooms --propose=1 --steps=10",
    "The config 'two_rooms' has no goal event: name one of its events in evaluator.solved_event.",
  ),
  (
    "events --config=three_rooms --propose=1 --steps=5",
    "None of the 1 episodes reaches the goal, so nothing precedes it: take more --steps, or a policy that gets there "
    "(--checkpoint).",
  ),
  (
    "events --config=three_rooms --seed=2147483648",
    "--seed is '2147483648': it must be an integer in the range [0, 2147483647] (see 'slipstream events --help').",
  ),
  (
    "events --config=three_rooms --epsilon=0.5",
    "--epsilon is for a policy: add --checkpoint, or leave --epsilon out, as all actions are random.",
  ),
  (
    "events --checkpoint=policy.npz --epsilon=2",
    "--epsilon is '2': it must be a number in the range [0.0, 1.0] (see 'slipstream events --help').",
  ),
  (
    "events --checkpoint=policy.npz --epsilon=nan",
    "--epsilon is 'nan': it must be a number in the range [0, 1] (see 'slipstream events --help').",
  ),
  (
    "events --checkpoint=empty",
    "empty holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file.",
  ),
  (
    "events --config=cartpole",
    "The config 'cartpole' has no events: add some, see docs/events.md.",
  ),
  (
    "events --config=three_rooms --config.events.done.condition=json:dumps --steps=10",
    "The condition of event 'done' raised TypeError (Object of type ndarray is not JSON serializable): fix it. "
    "(--verbose shows the traceback.)",
  ),
  (
    "events --config=three_rooms --config.events.done.arguments.x=3",
    "The condition of event 'done', 'environments.three_rooms:done', cannot be called with a step and the "
    "arguments {'x': 3} (got an unexpected keyword argument 'x'): change one.",
  ),
  (
    "events --config=three_rooms --config.events.done.condition=environments.conditions:Region",
    "The condition of event 'done', 'environments.conditions:Region', cannot be made with the arguments {} "
    "(TypeError: Region.__init__() missing 2 required positional arguments: 'low' and 'high'): change them. "
    "(--verbose shows the traceback.)",
  ),
  (
    "events --config=three_rooms --config.events.done.histroy=3",
    "The config has no key 'events.done.histroy': did you mean 'history'?",
  ),
  (
    "events --checkpoint=policy.npz --method=pbs",
    "The config 'three_rooms' has no potential to shape rewards by: name one in environment.potential, for example "
    "environments.potentials:AtCells.",
  ),
  (
    "events --checkpoint=runs/three_rooms/FINISHED --config.environment.arguments.room_size=401",
    "three_rooms has the room_size 401: it must be a whole number from 2 to 400.",
  ),
  (
    "train --resume=tables_are_bytes/FINISHED --config.environment_steps=500 --inline --quiet",
    "No snapshot in TMP/tables_are_bytes/FINISHED/checkpoints/replay is whole (000001: tables/chunks.tfrecord has 4 "
    "bytes and had BYTES): put a copy of one there, or start a new run; nothing of it was changed.",
  ),
  (
    "train --resume=seal_is_missing/FINISHED --config.environment_steps=500 --inline --quiet",
    "No snapshot in TMP/seal_is_missing/FINISHED/checkpoints/replay is whole (000001: snapshot.json is missing): put a "
    "copy of one there, or start a new run; nothing of it was changed.",
  ),
  (
    "train --resume=former_release/FINISHED --config.environment_steps=500 --inline --quiet",
    "The checkpoint in TMP/former_release/FINISHED/checkpoints/replay has an earlier layout version, and this release of "
    f"slipstream writes {LAYOUT_VERSION}: resume the run with the release that began it, or start a new run; nothing of it was "
    "changed.",
  ),
  (
    "train --config=faulty.json --video_period_seconds=60",
    "Environment 'tests.faulty_world:Faulty' renders no pictures: let it support render_mode='rgb_array'.",
  ),
  (
    "train --config=three_rooms --video_period_seconds=0",
    "evaluator.video_period_seconds is 0.0: it must be a number of seconds above 0, at most 1,000,000,000.",
  ),
  (
    "train --config=three_rooms --video_period_seconds=soon",
    "--video_period_seconds is 'soon': it must be a number (see 'slipstream train --help').",
  ),
  (
    "train --config=three_rooms --video_period_seconds=60 --config.evaluator.enabled=false",
    "evaluator.video_period_seconds is set, but the evaluator, which records the videos, is switched off: set "
    "evaluator.enabled to true.",
  ),
)
