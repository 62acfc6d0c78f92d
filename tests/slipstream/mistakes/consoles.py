"""Mistakes about consoles: in the command that serves one, between a worker and one, in runs that play on some."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "console",
    "No --world is given: name a built-in world, a gymnasium id or module:function.",
  ),
  (
    "console --world=slingshto",
    "There is no environment 'slingshto': did you mean 'slingshot'?",
  ),
  (
    'console --world=slingshot --options={\\"distnace\\":35}',
    "The environment 'slingshot' has no argument 'distnace': did you mean 'distance'?",
  ),
  (
    "console --world=slingshot --options=35",
    "--options is 35: it must be a JSON object, such as '{\"name\": value}'.",
  ),
  (
    "console --world=slingshot --options=distance",
    "--options cannot be read as JSON (Expecting value: line 1 column 1 (char 0)): write --options='{\"name\": value}'.",
  ),
  (
    "console --world=slingshot --pace=quick",
    "--pace is 'quick': it must be fast or real.",
  ),
  (
    "console --world=slingshot --rate=-1",
    "--rate is -1.0: it must be a number of ticks a second, or 0 for the world's own.",
  ),
  (
    "console --world=slingshot --lease_seconds=0",
    "--lease_seconds is 0.0: it must be a number of seconds above 0.",
  ),
  (
    "console --world=slingshot --port=70000",
    "--port is 70000: it must be a whole number from 0 to 65535.",
  ),
  (
    "console --world=slingshot --port=FOREIGN",
    "The console cannot listen at 127.0.0.1:FOREIGN: another process may have the port, or the host is not this one; take "
    "another --port or --host.",
  ),
  (
    "console --world=slingshot --tls_cert=file",
    "--tls_key is missing: TLS needs --tls_cert, --tls_key and --tls_ca together.",
  ),
  (
    "console --world=slingshot --tls_cert=none.crt --tls_key=file --tls_ca=file",
    "--tls_cert: none.crt cannot be read (No such file or directory): check the path and who owns it.",
  ),
  (
    "console --world=slingshot --pythonpath=nowhere",
    "--pythonpath names TMP/nowhere, which is not a folder: check the path.",
  ),
  (
    "console --world=tests.consoles.serving:Resetting",
    "The world 'tests.consoles.serving:Resetting' begins new episodes by itself (autoreset_mode NEXT_STEP), which a console "
    "cannot tell its worker: make it with AutoresetMode.DISABLED.",
  ),
  (
    'console --world=tests.consoles.serving:Counter --options={\\"fails_at\\":1}',
    "The world 'tests.consoles.serving:Counter' raised RuntimeError (the disk is full) while it was tried: fix it. "
    "(--verbose shows the traceback.)",
  ),
  (
    "console --world=tests.consoles.serving:nothing",
    "The environment 'tests.consoles.serving:nothing' is a str: it must be a gymnasium.Env or a gymnasium.vector.VectorEnv.",
  ),
  (
    'console --world=tests.consoles.serving:alone --options={\\"width\\":1}',
    "The environment 'tests.consoles.serving:alone' has no argument 'width': it takes length.",
  ),
  (
    "console --world=tests.consoles.serving:open_track",
    "The track 'mine' ends 90.0 m from where it begins, after a turn of 270.0 degrees: its ends must meet within 3 m, after 360 "
    "degrees.",
  ),
  (
    "act --server=localhost:RUNNING --console=localhost",
    "The console's address is 'localhost': write it as host:port.",
  ),
  (
    "act --server=localhost:RUNNING --console=localhost:NOBODY",
    "The console at localhost:NOBODY does not answer (WHY): see that it runs there and can be reached.",
  ),
  (
    "evaluate --server=localhost:RUNNING --console=localhost:NOBODY",
    "The console at localhost:NOBODY does not answer (WHY): see that it runs there and can be reached.",
  ),
  (
    "act --server=localhost:RUNNING --console=127.0.0.1:SPEAKS_LATER",
    "The console at 127.0.0.1:SPEAKS_LATER speaks version 2 of the protocol, and this worker version 1: bring both to the same "
    "version of Slipstream.",
  ),
  (
    "act --server=localhost:RUNNING --console=localhost:PLAYS_CART_POLE",
    "The console at localhost:PLAYS_CART_POLE plays 'CartPole-v1', and 'three_rooms' is expected: check the address, or start it "
    "with --world=three_rooms.",
  ),
  (
    "evaluate --server=localhost:RUNNING --console=localhost:PLAYS_CART_POLE",
    "The console at localhost:PLAYS_CART_POLE plays 'CartPole-v1', and 'three_rooms' is expected: check the address, or start it "
    "with --world=three_rooms.",
  ),
  (
    "act --server=localhost:RUNNING --console=localhost:PLAYS_ROOMS --environment.rom_size=3",
    "The console at localhost:PLAYS_ROOMS says: The environment 'three_rooms' has no argument 'rom_size': did you mean "
    "'room_size'?",
  ),
  (
    "act --server=localhost:WARMING_UP --console=localhost:HELD",
    "The console at localhost:HELD says: it is held by WORKER: wait for that worker to end, or take another console.",
  ),
  (
    "evaluate --checkpoint=policy.npz --console=localhost:PLAYS_ROOMS",
    "--console has no effect with --checkpoint: leave it out (see 'slipstream evaluate --help').",
  ),
  (
    "attach --server=localhost:RUNNING --actors=3 --consoles=localhost:PLAYS_ROOMS,localhost:HELD",
    "--actors is 3, and --consoles names 2: name one console for each worker, separated by commas.",
  ),
  (
    "attach --server=localhost:RUNNING --actors=2 --consoles=localhost:HELD,localhost:HELD",
    "--consoles has localhost:HELD more than once: a console serves one worker at a time.",
  ),
  (
    "attach --server=localhost:RUNNING --consoles=here",
    "The console's address is 'here': write it as host:port.",
  ),
  (
    "train --config=three_rooms --config.consoles.count=2 --config.actor.workers=5",
    "The run has 5 workers and an evaluator, and 2 consoles: give it a console for each, or lower actor.workers.",
  ),
  (
    "train --config=three_rooms --config.consoles.count=three",
    "The config's consoles.count is not valid: 'three' is not a whole number.",
  ),
  (
    "train --config=three_rooms --config.consoles.count=-1",
    "consoles.count is -1: it must be a whole number, 0 or more.",
  ),
  (
    "train --config=three_rooms --config.consoles.pace=slow",
    "The config's consoles.pace is not valid: 'slow' is not one of real, fast.",
  ),
  (
    "train --config=three_rooms --config.consoles.count=3 --inline",
    "An inline run plays in its own process, without consoles: leave out --inline, or both consoles.count and "
    "consoles.addresses.",
  ),
  (
    "train --config=three_rooms --config.consoles.count=3 --config.environment.name=three_roms",
    "There is no environment 'three_roms': did you mean 'three_rooms' or 'two_rooms'?",
  ),
  (
    'train --config=three_rooms --config.consoles.count=3 \'--config.consoles.addresses=["a:1", "b:1", "c:1"]\'',
    "consoles.count starts consoles, and consoles.addresses are of consoles that run already: set one of the two.",
  ),
  (
    'train --config=three_rooms \'--config.consoles.addresses=["a:1", "b:1", "a:1"]\'',
    "consoles.addresses has a:1 more than once: a console serves one worker at a time.",
  ),
  (
    'train --config=three_rooms \'--config.consoles.addresses=["a:1", "b", "c:1"]\'',
    "The console's address is 'b': write it as host:port.",
  ),
  (
    "train --config=three_rooms --config.consoles.addresses=a:1,b:1,c:1",
    "The config's consoles.addresses is not valid: 'a:1,b:1,c:1' is not a list.",
  ),
)
