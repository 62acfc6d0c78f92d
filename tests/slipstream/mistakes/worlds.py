"""Worlds that fail, or give what their spaces do not hold."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=raise",
    "The environment 'tests.faulty_world:Faulty' raised KeyError ('no such\\nroom') in reset: fix it. "
    "(--verbose shows the traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=raise --config.environment.arguments.after=3",
    "The environment 'tests.faulty_world:Faulty' raised KeyError ('no such\\nroom') in step: fix it. (--verbose"
    " shows the traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_init=raise",
    "The environment 'tests.faulty_world:Faulty' cannot be made with the arguments {'in_init': 'raise'} "
    "(KeyError: 'no such\\nroom'): check environment.name and environment.arguments. (--verbose shows the "
    "traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=exit",
    "The environment 'tests.faulty_world:Faulty' raised SystemExit (7) in step: fix it. (--verbose shows the "
    "traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=exit",
    "The environment 'tests.faulty_world:Faulty' raised SystemExit (7) in reset: fix it. (--verbose shows the "
    "traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_init=exit",
    "The environment 'tests.faulty_world:Faulty' cannot be made with the arguments {'in_init': 'exit'} "
    "(SystemExit: 7): check environment.name and environment.arguments. (--verbose shows the traceback.)",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=old_api",
    "The environment 'tests.faulty_world:Faulty' returned 4 values from step and not five: let reset return "
    "(observation, info) and step (observation, reward, terminated, truncated, info), as gymnasium's worlds "
    "do, or wrap an older world with the package shimmy.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=old_api",
    "The environment 'tests.faulty_world:Faulty' returned one value (ndarray) from reset and not two: let "
    "reset return (observation, info) and step (observation, reward, terminated, truncated, info), as "
    "gymnasium's worlds do, or wrap an older world with the package shimmy.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.lacks=observation_space",
    "The environment 'tests.faulty_world:Faulty' has no observation_space: set it to one of gymnasium's spaces.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.lacks=action_space",
    "The environment 'tests.faulty_world:Faulty' has no action_space: set it to one of gymnasium's spaces.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.name=tests.faulty_world:Seedless",
    "The environment 'tests.faulty_world:Seedless' cannot be reset with a seed: Seedless.reset does not take "
    "'seed' (got an unexpected keyword argument 'seed'); write it as reset(self, *, seed=None, options=None).",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.name=tests.faulty_world:wrapped",
    "The environment 'tests.faulty_world:wrapped' cannot be reset with a seed: Unseeded.reset does not take "
    "'seed' (got an unexpected keyword argument 'seed'); write it as reset(self, *, seed=None, options=None).",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=number",
    "The environment 'tests.faulty_world:Faulty' returned terminated = 0 (int) from step: return True or "
    "False, or skip this check with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=text",
    "The environment 'tests.faulty_world:Faulty' returned truncated = 'no' (str) from step: return True or "
    "False, or skip this check with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=no_info",
    "The environment 'tests.faulty_world:Faulty' returned the info None (NoneType) from step: return a dict, "
    "which may be empty, or skip this check with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=no_info",
    "The environment 'tests.faulty_world:Faulty' returned the info None (NoneType) from reset: return a dict, "
    "which may be empty, or skip this check with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=nan",
    "The environment 'tests.faulty_world:Faulty' returned an observation from step that is outside its "
    "observation_space: it has nan at [1], which is not finite; make the two agree, or skip this check with "
    "--config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=far",
    "The environment 'tests.faulty_world:Faulty' returned an observation from step that is outside its "
    "observation_space: it has 5.0 at [1], where the space has from -1.0 to 1.0; make the two agree, or skip "
    "this check with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=shape",
    "The environment 'tests.faulty_world:Faulty' returned an observation from step that is outside its "
    "observation_space: it has the shape (2, 1), and the space (2,); make the two agree, or skip this check "
    "with --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=words",
    "The environment 'tests.faulty_world:Faulty' returned an observation from step that is outside its "
    "observation_space: 'nowhere' (str) is no array of numbers; make the two agree, or skip this check with "
    "--config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=no_reward",
    "The environment 'tests.faulty_world:Faulty' returned the reward None (NoneType) from step: it must be one"
    " finite number.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_step=nan_reward",
    "The environment 'tests.faulty_world:Faulty' returned the reward nan (float) from step: it must be one "
    "finite number.",
  ),
  *(
    (
      f"events --config=faulty.json --steps=30 --config.environment.arguments.in_step={fault}",
      "The environment 'tests.faulty_world:Faulty' ended an episode with info['measures'] that cannot be used: "
      f"{what}; give a dict of names and finite numbers, such as {{'lap_seconds': 93.2}}.",
    )
    for fault, what in (
      ("measure_list", "they are a list"),
      ("measure_name", "'lap time' is no name of at most 64 letters, digits and underscores"),
      ("nan_measure", "'lap' is nan (float), which is no finite number"),
      ("text_measure", "'lap' is 1:33 (str), which is no finite number"),
      ("many_measures", "they are 33, more than 32"),
    )
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=shape",
    "The environment 'tests.faulty_world:Faulty' returned an observation from reset that is outside its "
    "observation_space: it has the shape (3,), and the space (2,); make the two agree, or skip this check with"
    " --config.environment.check=never.",
  ),
  (
    "events --config=faulty.json --steps=30 --config.environment.arguments.in_reset=far",
    "The environment 'tests.faulty_world:Faulty' returned an observation from reset that is outside its "
    "observation_space: it has 5.0 at [1], where the space has from -1.0 to 1.0; make the two agree, or skip "
    "this check with --config.environment.check=never.",
  ),
)
