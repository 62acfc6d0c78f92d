"""Mistakes in a config: its file, an override, a value, a combination."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "train",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "train --config=",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "train --config.seed=3",
    "No --config is given: name a preset (see 'slipstream presets') or a file.",
  ),
  (
    "train --config=three_room",
    "There is no preset 'three_room': did you mean 'three_rooms'?",
  ),
  (
    "train --config=qqqqqqqq",
    "There is no preset 'qqqqqqqq': see 'slipstream presets', or name a file that ends in .py or .json.",
  ),
  (
    "train --config=file",
    "The config file file is neither Python nor JSON by its name: let it end in .py or .json.",
  ),
  (
    "train --config=missing.py",
    "There is no config file missing.py: check the path, or name a preset (see 'slipstream presets').",
  ),
  (
    "train --config=file/config.json",
    "There is no config file file/config.json: check the path, or name a preset (see 'slipstream presets').",
  ),
  (
    "train --config=folder.json",
    "The config file folder.json is a folder: name a file in it, or a preset (see 'slipstream presets').",
  ),
  (
    "train --config=bytes.json",
    "The config file bytes.json is not UTF-8 text: save it as UTF-8.",
  ),
  (
    "train --config=bytes.py",
    "The config file bytes.py cannot be run (SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff in "
    "position 0: invalid start byte (bytes.py, line 1)): fix it.",
  ),
  (
    "train --config=begun.json",
    "The config file begun.json is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
    "(char 1)): correct it, or write one with --print_config.",
  ),
  (
    "train --config=list.json",
    "The config file list.json is not a JSON object: begin it with {, as the output of --print_config does.",
  ),
  (
    "train --config=deep.json",
    "The config file deep.json is not JSON (maximum recursion depth exceeded while decoding a JSON array from a "
    "unicode string): correct it, or write one with --print_config.",
  ),
  (
    "train --config=typing_error.json",
    "The config has no key 'sed': did you mean 'seed'?",
  ),
  (
    "train --config=infinite.json",
    "The config's environment_steps is not valid: inf is not a whole number.",
  ),
  (
    "train --config=without.py",
    "The config file without.py has no function get_config(): add one that returns a slipstream.RunConfig.",
  ),
  (
    "train --config=returns_3.py",
    "get_config() of returns_3.py returned 3: it must return a slipstream.RunConfig.",
  ),
  (
    "train --config=syntax.py",
    "The config file syntax.py cannot be run (SyntaxError: invalid syntax (syntax.py, line 1)): fix it.",
  ),
  (
    "train --config=exits.py",
    "The config file exits.py cannot be run (SystemExit: 3): fix it.",
  ),
  (
    "train --config=three_rooms --config.replay.sampling=disk",
    "The config's replay.sampling is not valid: 'disk' is not one of server, memory.",
  ),
  (
    "train --config=cartpole --method=reaper --config.replay.priority.reliability_exponent=1.5",
    "replay.priority.reliability_exponent is 1.5: it must lie in [0, 1].",
  ),
  (
    "train --config=cartpole --config.replay.priority.criterion=reper",
    "The config's replay.priority.criterion is not valid: 'reper' is not one of td_error, reaper.",
  ),
  (
    "train --config=cartpole --config.replay.priority.criterion=reaper",
    "replay.priority.criterion is 'reaper', by which a TD error changes the priorities of its whole episode, and the server "
    "cannot do that: set replay.sampling to 'memory'.",
  ),
  (
    "train --config=cartpole --method=reaper --config.replay.sampling=server",
    "replay.priority.criterion is 'reaper', by which a TD error changes the priorities of its whole episode, and the server "
    "cannot do that: set replay.sampling to 'memory'.",
  ),
  (
    "train --config=cartpole --config.replay.priority.criterion=reaper --config.replay.sampling=memory",
    "replay.priority.criterion is 'reaper', and table 'default' has the selector 'uniform', which does not use it: give "
    "every table the selector 'prioritized'.",
  ),
  (
    "train --config=cartpole --method=per_rank --config.replay.priority.criterion=reaper",
    "replay.priority.criterion is 'reaper', and table 'default' has the selector 'ranked', which does not use it: give "
    "every table the selector 'prioritized'.",
  ),
  (
    "train --config=cartpole --config.replay.default.selector=ranked",
    "Table 'default' has the selector 'ranked', and the server knows no ranks: set replay.sampling to 'memory', or use "
    "'prioritized'.",
  ),
  (
    "train --config=three_rooms --config.replay.sampling=memory --config.replay.default.selector=prioritized "
    "--config.replay.tables.done.selector=ranked",
    "Table 'done' has the selector 'ranked' and table 'default' 'prioritized', and a run has one kind of priorities: give both "
    "the same.",
  ),
  (
    "train --config=cartpole --method=per_rank --config.replay.priority.ranking_period_updates=0",
    "replay.priority.ranking_period_updates is 0: it must be a whole number, 1 or more.",
  ),
  (
    "train --config=cartpole --config.replay.priority.normalize=buffer",
    "replay.priority.normalize is 'buffer', and only the learner's own memory knows the largest weight of all rows: set "
    "replay.sampling to 'memory', or normalize to 'batch'.",
  ),
  (
    "train --config=cartpole --config.replay.steps_per_round=256",
    "replay.steps_per_round is 256, and only a learner with its own memory keeps to rounds: set replay.sampling to 'memory', "
    "or leave replay.steps_per_round at 1.",
  ),
  (
    "train --config=cartpole --method=nmer",
    "learner.mixup.kind is 'neighbors', which changes actions, but those of 'ddqn' are discrete: use an algorithm with "
    "continuous ones, such as 'sac', or leave it at 'none'.",
  ),
  (
    "train --config=pendulum_sac --config.learner.mixup.kind=mixup",
    "learner.mixup.kind is 'mixup', which looks for other rows, and the server cannot do that: set replay.sampling to 'memory'.",
  ),
  (
    "train --config=pendulum_sac --method=nmer --config.learner.mixup.neighbors.count=900",
    "learner.mixup.neighbors.count is 900, but learning begins with 500 transitions: lower it, or raise the min_size of table "
    "'default'.",
  ),
  (
    "train --config=pendulum_sac --config.learner.mixup.kind=nearest",
    "The config's learner.mixup.kind is not valid: 'nearest' is not one of none, neighbors, mixup, continuous, s4rl, noise.",
  ),
  (
    "train --config=pendulum_sac --method=nmer --config.learner.mixup.alpha=0",
    "learner.mixup.alpha is 0.0: it must lie in [0.001, 1000].",
  ),
  (
    "train --config=pendulum_sac --method=noise --config.learner.mixup.deviation=0",
    "learner.mixup.deviation is 0.0: it must be above 0, at most 100.",
  ),
  (
    "train --config=pendulum_sac --method=nmer --config.learner.mixup.fraction=2",
    "learner.mixup.fraction is 2.0: it must lie in [0, 1].",
  ),
  (
    "train --config=pendulum_sac --method=nmer --config.learner.mixup.neighbors.growth=2",
    "learner.mixup.neighbors.growth is 2.0: it must lie in [0, 1].",
  ),
  (
    "train --config=cartpole --method=refer",
    "learner.refer.rules is 'both', which needs the Gaussian that each action was drawn from, and 'ddqn' draws from none: use "
    "one of td3, ddpg, naf, v_racer.",
  ),
  (
    "train --config=refer_ddpg_swimmer --config.learner.algorithm=sac",
    "learner.refer.rules is 'both', which needs the Gaussian that each action was drawn from, and 'sac' draws from none: use one "
    "of td3, ddpg, naf, v_racer.",
  ),
  (
    "train --config=refer_ddpg_swimmer --config.replay.sampling=server",
    "replay.unit is 'episodes', and the server lets each transition go by itself: set replay.sampling to 'memory', or leave "
    "replay.unit at 'steps'.",
  ),
  (
    "train --config=three_rooms --config.replay.shares=td_error",
    "replay.shares is 'td_error', and only a learner with its own memory changes shares: set replay.sampling to 'memory', or "
    "replay.shares to 'fixed'.",
  ),
  (
    "train --config=halfcheetah --method=uniform --config.replay.sampling=memory --config.replay.shares=td_error",
    "replay.shares is 'td_error', which divides one part of a batch among event tables, and there are 0: add some, or set "
    "replay.shares to 'fixed'.",
  ),
  (
    "train --config=refer_ddpg_swimmer --config.replay.sampling=server --config.replay.unit=steps",
    "learner.scale_rewards is true, which needs a look at all stored steps, and the server offers none: set replay.sampling to "
    "'memory'.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.replay.unit=steps",
    "learner.algorithm is 'v_racer', which estimates the returns of whole episodes: set replay.unit to 'episodes'.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.actor.random_steps=10",
    "learner.refer.rules is 'both', which needs the Gaussian that each action was drawn from, and actor.random_steps is 10: "
    "random actions come from none, so set it to 0.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.learner.n_step=3",
    "learner.refer.rules is 'both', which needs the Gaussian that each action was drawn from, one for each row, and "
    "learner.n_step is 3: set it to 1.",
  ),
  (
    "train --config=refer_ddpg_swimmer --config.learner.mixup.kind=neighbors",
    "learner.refer.rules is 'both', which needs the Gaussian that each action was drawn from, and a mixed row has none: set "
    "learner.mixup.kind to 'none'.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.learner.refer.limit=0",
    "learner.refer.limit is 0.0: it must be a finite number above 0.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.learner.refer.tolerance=1",
    "learner.refer.tolerance is 1.0: it must lie in (0, 1).",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.learner.refer.annealing=-1",
    "learner.refer.annealing is -1.0: it must be a finite number, 0 or more.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.learner.refer.rules=third",
    "The config's learner.refer.rules is not valid: 'third' is not one of off, watched, first, second, both.",
  ),
  (
    "train --config=refer_v_racer_swimmer --config.network.normalize_observations=false",
    "network.normalize_by has no effect without network.normalize_observations: set that to true, or leave normalize_by out.",
  ),
  (
    "train --config=cartpole --config.learner.target_update_period=0",
    "learner.target_update_period is 0: it must be a whole number, 1 or more.",
  ),
  (
    "train --config=pendulum_td3 --config.learner.target_update_period=5",
    "learner.target_update_period is set, but TD3 has a period of its own: set learner.algorithm.target_period.",
  ),
  (
    "train --config=pendulum_sac --config.learner.algorithm=ddpg --config.learner.algorithm.noise=pink",
    "The config's learner.algorithm.noise is not valid: 'pink' is not one of gaussian, ornstein_uhlenbeck.",
  ),
  (
    "train --config=pendulum_sac --config.learner.algorithm=naf --config.learner.algorithm.noise_reversion=2",
    "learner.algorithm.noise_reversion is 2.0: it must lie in (0, 1].",
  ),
  (
    "train --config=pendulum_sac --config.learner.algorithm=ddpg --config.learner.algorithm.critic_l2=-1",
    "learner.algorithm.critic_l2 is -1.0: it must be a finite number, 0 or more.",
  ),
  (
    "train --config=cartpole --config.network.activation=tanh",
    "The config's network.activation is not valid: 'tanh' is not one of relu, softsign.",
  ),
  (
    "train --config=cartpole --config.network.output_scale=0",
    "network.output_scale is 0.0: it must be a finite number above 0.",
  ),
  (
    "train --config=cartpole --config.learner.algorithm=naf",
    "The environment has 2 discrete actions, but naf chooses continuous ones: use an environment with a Box of actions, or "
    "learner.algorithm 'ddqn'.",
  ),
  (
    "train --config=cartpole --config.learner.algorithm.td_loss=cubed",
    "The config's learner.algorithm.td_loss is not valid: 'cubed' is not one of squared, huber.",
  ),
  (
    "train --config=three_rooms --config.lerner.batch_size=3",
    "The config has no key 'lerner': did you mean 'learner'?",
  ),
  (
    "train --config=three_rooms --config.learner.bach_size=3",
    "The config has no key 'learner.bach_size': did you mean 'batch_size'?",
  ),
  (
    "train --config=three_rooms --config.=3",
    "The config has no key '': known here: name, seed, environment_steps, method, environment, events, replay, network, "
    "actor, learner, evaluator, consoles.",
  ),
  (
    "train --config=three_rooms --config.name.first=a",
    "The config's 'name' is a value and has no key 'first': write --config.name=VALUE.",
  ),
  (
    "train --config=three_rooms --config.actor.epsilon=0.1",
    "The config has no key 'actor.epsilon' any more: write --config.learner.algorithm.epsilon.",
  ),
  (
    "train --config=three_rooms --config.learner.algorithm.temperature=1",
    "The config has no key 'learner.algorithm.temperature': known here: name, dueling, td_loss, epsilon, "
    "final_epsilon, epsilon_decay_updates, worker_epsilons.",
  ),
  (
    "train --config=three_rooms --config.learner.batch_size=many",
    "The config's learner.batch_size is not valid: 'many' is not a whole number.",
  ),
  (
    "train --config=three_rooms --config.learner.batch_size=1.5",
    "The config's learner.batch_size is not valid: 1.5 is not a whole number.",
  ),
  (
    "train --config=three_rooms --config.learner.prefetch=maybe",
    "The config's learner.prefetch is not valid: 'maybe' is not true or false.",
  ),
  (
    "train --config=three_rooms --config.learner.learning_rate=inf",
    "The config's learner.learning_rate is not valid: 'inf' is not a number.",
  ),
  (
    "train --config=three_rooms --config.learner=3",
    "The config's learner is not valid: 3 is not an object of names and values.",
  ),
  (
    "train --config=three_rooms --config.learner.algorithm=dqn",
    "There is no algorithm 'dqn' for learner.algorithm: did you mean 'ddqn'?",
  ),
  (
    "train --config=three_rooms --config.learner.algorithm=3",
    "The config's learner.algorithm is not valid: 3 is neither the name of an algorithm nor an object with one.",
  ),
  (
    "train --config=three_rooms --config.learner.algorithm=sac",
    "The environment has 3 discrete actions, but sac chooses continuous ones: use an environment with a Box of "
    "actions, or learner.algorithm 'ddqn'.",
  ),
  (
    "train --config=pendulum_sac --config.learner.algorithm=ddqn",
    "The environment's actions are continuous (shape (1,), float32), but ddqn chooses among discrete ones: use an "
    "environment with a Discrete action space, or learner.algorithm 'sac'.",
  ),
  (
    "train --config=three_rooms --config.learner.algorithm.epsilon=2",
    "An epsilon of learner.algorithm is 2.0: it is a probability, from 0 to 1.",
  ),
  (
    "train --config=three_rooms --config.learner.bias_correction=exact",
    "The config's learner.bias_correction is not valid: 'exact' is not one of none, counts, priority_sum, balance.",
  ),
  (
    "train --config=three_rooms --config.learner.bias_correction=counts --config.replay.default.selector=prioritized",
    "learner.bias_correction is 'counts', which needs uniform draws from the default table: give that table the "
    "selector 'uniform', or use 'balance' or 'priority_sum'.",
  ),
  (
    "train --config=cartpole --config.learner.bias_correction=counts",
    "learner.bias_correction is 'counts', and there are no event tables whose bias it would correct: add some, or "
    "leave it at 'none'.",
  ),
  (
    "train --config=cartpole --config.learner.cagrad.coefficient=0.5",
    "learner.cagrad combines the gradients of several tables, and there is only the default one: add event tables, "
    "or leave learner.cagrad.coefficient at 0.",
  ),
  (
    "train --config=three_rooms --config.learner.cagrad.coefficient=0.5 --config.learner.mixed_precision=true",
    "learner.mixed_precision is not precise enough for the products of gradients in learner.cagrad: switch one of "
    "them off.",
  ),
  (
    "train --config=three_rooms --config.learner.discount=1.1",
    "learner.discount is 1.1: it must lie in [0, 1].",
  ),
  (
    "train --config=three_rooms --config.learner.n_step=10001",
    "learner.n_step is 10001: at most 10000 steps can be kept, so lower it.",
  ),
  (
    "train --config=three_rooms --config.learner.updates_per_block=1000000",
    "learner.updates_per_block is 1000000, which makes blocks of 32000000 rows, more than 10,000,000: lower it or "
    "learner.batch_size.",
  ),
  (
    "train --config=three_rooms --config.learner.threads=100000",
    "learner.threads is 100000: it must be a whole number, at most 1,024.",
  ),
  (
    "train --config=three_rooms --config.network.hidden_sizes=256",
    "The config's network.hidden_sizes is not valid: 256 is not a list.",
  ),
  (
    "train --config=three_rooms --config.network.hidden_sizes=[0]",
    "network.hidden_sizes has a layer of 0 units: each layer needs at least 1, and at most 65,536.",
  ),
  (
    "train --config=three_rooms --config.network.hidden_sizes=[100000000000]",
    "network.hidden_sizes has a layer of 100000000000 units: each layer needs at least 1, and at most 65,536.",
  ),
  (
    "train --config=three_rooms --config.environment_steps=0",
    "environment_steps is 0: it must be a whole number, 1 or more.",
  ),
  (
    "train --config=three_rooms --config.environment_steps=9223372036854775808",
    "environment_steps is 9223372036854775808: it must be a whole number, at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.environment_steps=1e300",
    "environment_steps is a number of 301 digits: it must be a whole number, at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.environment_steps=1e400",
    "The config's environment_steps is not valid: inf is not a whole number.",
  ),
  (
    "train --config=three_rooms --config.seed=-1",
    "seed is -1: it must lie in [0, 2^31).",
  ),
  (
    "train --config=three_rooms --config.seed=2147483648",
    "seed is 2147483648: it must lie in [0, 2^31).",
  ),
  (
    "train --config=three_rooms --config.actor.workers=-1",
    "actor.workers is -1: it must be a whole number, 0 or more.",
  ),
  (
    "train --config=three_rooms --config.actor.workers=100000",
    "actor.workers is 100000: it must be a whole number, at most 1,000.",
  ),
  (
    "train --config=three_rooms --config.evaluator.episodes=9223372036854775808",
    "evaluator.episodes is 9223372036854775808: it must be a whole number, at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.evaluator.period_seconds=1e300",
    "evaluator.period_seconds is 1e+300: it must be a number of seconds from 0 to 1,000,000,000.",
  ),
  (
    "train --config=three_rooms --config.evaluator.solved_event=won",
    "evaluator.solved_event is 'won', which is not among the events (at_gap, done): add it or name another.",
  ),
  (
    "train --config=three_rooms --config.name=a/b",
    "Run name 'a/b' is not valid: use letters, digits, '_', '-' and '.'.",
  ),
  (
    "train --config=three_rooms --config.replay.capacity=0",
    "replay.capacity is 0: it must be a whole number, 1 or more.",
  ),
  (
    "train --config=three_rooms --config.replay.capacity=9223372036854775808",
    "replay.capacity is 9223372036854775808: it must be a whole number, at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.replay.capacity=1000000000000",
    "The tables would take up to 2.87e+03 TB of memory when full, and this machine has MEMORY left: lower "
    "replay.capacity (or the tables' own capacities).",
  ),
  (
    "train --config=three_rooms --config.replay.sampling=memory --config.replay.capacity=1000000000000",
    "The learner's own memory would take up to 185 TB when full, and this machine has MEMORY left: lower "
    "replay.capacity (or the tables' own capacities).",
  ),
  (
    "train --config=three_rooms --config.replay.environment_steps_per_update=0",
    "replay.environment_steps_per_update is 0.0: it must be a number from 1e-06 to 1,000,000, or none to let both "
    "sides run free.",
  ),
  (
    "train --config=three_rooms --config.replay.environment_steps_per_update=1e300",
    "replay.environment_steps_per_update is 1e+300: it must be a number from 1e-06 to 1,000,000, or none to let "
    "both sides run free.",
  ),
  (
    "train --config=three_rooms --config.replay.checkpoint_period_seconds=0",
    "replay.checkpoint_period_seconds is 0.0: it must be a number of seconds above 0, at most 1,000,000,000.",
  ),
  (
    "train --config=three_rooms --config.replay.tables=[]",
    "The table probabilities sum to 0.5, not 1 (default 0.5): change them.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.doen.capacity=3",
    "The config has no key 'replay.tables.doen': did you mean 'done'?",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.probability=0.5",
    "The table probabilities sum to 1.2, not 1 (default 0.5, at_gap 0.2, done 0.5): change them.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.probability=0",
    "Table 'done' has the probability 0.0: it must lie in (0, 1].",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.capacity=0",
    "Table 'done' has the capacity 0: it must hold at least 1 transition, and at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.capacity=9223372036854775808",
    "Table 'done' has the capacity 9223372036854775808: it must hold at least 1 transition, and at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.min_size=0",
    "Table 'done' has the min_size 0: it must be at least 1, and at most 2^63 - 1.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.min_size=7000",
    "Table 'done' waits for 7000 transitions but holds at most 6000 (replay.capacity times its probability): lower "
    "its min_size or raise replay.capacity.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.selector=random",
    "The config's replay.tables.1.selector is not valid: 'random' is not one of uniform, prioritized, ranked, fifo, lifo.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.name=policy",
    "The table name 'policy' is reserved (policy, run, episodes, heartbeats, histories, pace, status): rename it.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.name=at_gap",
    "Two tables share a name among ['default', 'at_gap', 'at_gap']: give each its own.",
  ),
  (
    "train --config=three_rooms --config.replay.tables.done.name=end",
    "Event 'done' sends its history to table 'done', which is not among replay.tables (at_gap, end): add the table "
    "or name another, or none if it is only to be watched.",
  ),
  (
    "train --config=three_rooms --config.events=3",
    "The config's events is not valid: 3 is not a list.",
  ),
  (
    "train --config=three_rooms --config.events.0=3",
    "The config's events.0 is not valid: 3 is not an object of names and values.",
  ),
  (
    "train --config=three_rooms --config.events.5.history=3",
    "The config has no key 'events.5': known here: at_gap, done.",
  ),
  (
    "train --config=three_rooms --config.events.done.name=",
    "Event name '' is not valid: use letters, digits, '_', '-' and '.'.",
  ),
  (
    "train --config=three_rooms --config.events.done.history=0",
    "Event 'done' has a history of 0 steps: it needs at least 1, the event's own.",
  ),
  (
    "train --config=three_rooms --config.events.done.history=7000",
    "Event 'done' has a history of 7000 steps, but table 'done' holds 6000 transitions and a writer keeps at most "
    "10000 steps: shorten the history.",
  ),
  (
    "train --config=three_rooms --config.events.done.condition=done",
    "Event 'done' has the condition 'done': write it as 'module:function', for example "
    "'environments.three_rooms:at_gap'.",
  ),
  (
    "train --config=three_rooms --config.events.done.condition=missing:done",
    "The condition of event 'done', 'missing:done', cannot be loaded: there is no module 'missing', install its "
    "package or give its folder with --pythonpath.",
  ),
  (
    "train --config=three_rooms --config.events.done.condition=environments.three_rooms:dnoe",
    "The condition of event 'done', 'environments.three_rooms:dnoe', cannot be loaded: module "
    "'environments.three_rooms' has no 'dnoe', did you mean 'done'?",
  ),
  (
    "train --config=three_rooms --config.environment.name=",
    "environment.name is empty: name an environment, a gymnasium id or 'module:function'.",
  ),
  (
    "train --config=three_rooms --config.environment.name=three_roms",
    "There is no environment 'three_roms': did you mean 'three_rooms' or 'two_rooms'?",
  ),
  (
    "train --config=three_rooms --config.environment.name=missing:World",
    "The environment, 'missing:World', cannot be loaded: there is no module 'missing', install its package or give "
    "its folder with --pythonpath.",
  ),
  (
    "train --config=three_rooms --config.environment.name=json:dumps",
    "The environment 'json:dumps' cannot be made with the arguments {} (TypeError: dumps() missing 1 required "
    "positional argument: 'obj'): check environment.name and environment.arguments. (--verbose shows the traceback.)",
  ),
  (
    "train --config=three_rooms --config.environment.arguments=3",
    "The config's environment.arguments is not valid: 3 is not an object of names and values.",
  ),
  (
    "train --config=three_rooms --config.environment.arguments.room_sise=3",
    "The environment 'three_rooms' has no argument 'room_sise': did you mean 'room_size'?",
  ),
  (
    "train --config=three_rooms --config.evaluator.schedule=steps",
    "The config's evaluator.schedule is not valid: 'steps' is not one of seconds, updates.",
  ),
  (
    "train --config=three_rooms --config.evaluator.schedule=updates --config.evaluator.period_updates=50",
    "evaluator.schedule is 'updates', and evaluator.period_updates is 50, but the learner publishes a policy only every "
    "64 updates (learner.publish_period_updates, learner.updates_per_block): raise evaluator.period_updates or lower those.",
  ),
  (
    "train --config=three_rooms --config.actor.environment_arguments=3",
    "The config's actor.environment_arguments is not valid: 3 is not an object of names and values.",
  ),
  (
    "train --config=three_rooms --config.actor.environment_arguments.room_sise=3",
    "The environment 'three_rooms' has no argument 'room_sise': did you mean 'room_size'?",
  ),
  (
    "train --config=three_rooms --config.evaluator.environment_arguments.room_size=1",
    "three_rooms has the room_size 1: it must be a whole number from 2 to 400.",
  ),
  (
    "train --config=faulty.json --config.environment.name=tests.faulty_world:Sized "
    "--config.evaluator.environment_arguments.numbers=3",
    "Environment 'tests.faulty_world:Sized' with the arguments {'numbers': 3} gives observation as ('float32', (3,)), but the "
    "run stores ('float32', (2,)): leave out those that change its spaces.",
  ),
  (
    "train --config=three_rooms --environment.room_size=3",
    "'slipstream train' takes no --environment.*: set environment.arguments in the config "
    "(--config.environment.arguments.NAME=VALUE of 'train'), or give it to 'act', 'attach' or 'evaluate'.",
  ),
  (
    "train --config=three_rooms --config.environment.arguments.room_size=1",
    "three_rooms has the room_size 1: it must be a whole number from 2 to 400.",
  ),
  (
    "train --config=cartpole --config.environment.arguments.num_envs=2",
    "environment.arguments has 'num_envs', which the role that makes the environment chooses: set actor.environments.",
  ),
  (
    "train --config=cartpole --config.environment.arguments.vectorization_mode=vector_entry_point",
    "The vector environment 'CartPole-v1' has the autoreset mode NEXT_STEP: only with AutoresetMode.DISABLED are the last "
    "steps of its episodes known, so set that in its metadata and begin episodes by options['reset_mask'].",
  ),
  (
    "train --config=three_rooms --config.environment.potential=AtCells",
    "environment.potential is 'AtCells': write it as 'module:name', for example 'environments.potentials:AtCells', "
    "or leave it empty.",
  ),
  (
    "train --config=three_rooms --config.environment.potential=environments.potentials:AtCell",
    "environment.potential, 'environments.potentials:AtCell', cannot be loaded: module 'environments.potentials' "
    "has no 'AtCell', did you mean 'AtCells'?",
  ),
  (
    "train --config=three_rooms --config.environment.potential=environments.potentials:AtCells",
    "environment.potential, 'environments.potentials:AtCells', cannot be made with the arguments {} (TypeError: "
    "AtCells.__init__() missing 1 required positional argument: 'cells'): change them. (--verbose shows the traceback.)",
  ),
  (
    "train --config=three_rooms --method=unifrom",
    "There is no method 'unifrom': did you mean 'uniform'?",
  ),
  (
    "train --config=three_rooms --method=pbs",
    "The config 'three_rooms' has no potential to shape rewards by: name one in environment.potential, for example "
    "environments.potentials:AtCells.",
  ),
  (
    "train --config=cartpole --method=sset",
    "The config 'cartpole' has no event tables for SSET: add events and their tables.",
  ),
  (
    "train --config=cartpole --method=goal_only",
    "The config 'cartpole' has no goal event: name one that feeds a table in evaluator.solved_event.",
  ),
)
