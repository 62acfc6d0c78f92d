"""Mistakes in a command's name and in the form of its flags."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "trian",
    "There is no command 'trian': did you mean 'train'?",
  ),
  (
    "TRAIN",
    "There is no command 'TRAIN': there are COMMANDS.",
  ),
  (
    "train three_rooms",
    "'three_rooms' is not a flag of 'slipstream train': flags begin with --.",
  ),
  (
    "train --confg=three_rooms",
    "'slipstream train' has no flag --confg: did you mean --config?",
  ),
  (
    "train --qiuet --config=three_rooms",
    "'slipstream train' has no flag --qiuet: did you mean --quiet?",
  ),
  (
    "train -x",
    "'slipstream train' has no flag --x: see 'slipstream train --help'.",
  ),
  (
    "train --config",
    "--config has no value: write --config=VALUE.",
  ),
  (
    "train --config.seed",
    "--config.seed has no value: write --config.seed=VALUE.",
  ),
  (
    "train --config=three_rooms --config.seed --quiet",
    "--config.seed has no value: write --config.seed=VALUE.",
  ),
  (
    "train --config=three_rooms --port=many",
    "--port is 'many': it must be an integer (see 'slipstream train --help').",
  ),
  (
    "train --config=three_rooms --inline=maybe",
    "--inline is 'maybe': it must be true or false (see 'slipstream train --help').",
  ),
  (
    "train --flagfile=missing",
    "The flags cannot be read (Unable to open flagfile: [Errno 2] No such file or directory: 'missing'): see "
    "'slipstream train --help'.",
  ),
  (
    "train serve",
    "'serve' is not a flag of 'slipstream train': flags begin with --.",
  ),
  (
    "status localhost:8000",
    "'localhost:8000' is not a flag of 'slipstream status': flags begin with --.",
  ),
  (
    "presets more",
    "'more' is not a flag of 'slipstream presets': flags begin with --.",
  ),
  (
    "presets --all",
    "'slipstream presets' has no flag --all: see 'slipstream presets --help'.",
  ),
)
