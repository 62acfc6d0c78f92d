"""Mistakes in the commands that compare runs."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "runs nowhere",
    "There is no folder nowhere: name one that holds runs, such as the --run_root of 'train'.",
  ),
  (
    "runs empty",
    "There are no runs in empty: name a folder that holds some, or start one with 'slipstream train'.",
  ),
  (
    "runs runs --sort=best_retrun",
    "Runs have no column 'best_retrun': did you mean 'best_return'?",
  ),
  (
    "runs runs --filter=metod=sset",
    "Runs have no column 'metod': did you mean 'method'?",
  ),
  (
    "runs runs --filter=sset",
    "--filter=sset is no condition: write COLUMN=VALUE, or one of !=, <, <=, > and >= between them.",
  ),
  (
    "runs runs --filter=config.learning_rate=1",
    "No run's config has a field 'learning_rate': did you mean 'learner.learning_rate'?",
  ),
  (
    "runs runs --sort=config.xyz",
    "No run's config has a field 'xyz': a run's config.json holds them all.",
  ),
  (
    "runs runs more",
    "'more' is not a flag of 'slipstream runs': flags begin with --.",
  ),
  (
    "report",
    "No run directory is given: write 'slipstream report runs', or name the runs to compare.",
  ),
  (
    "report nowhere",
    "There is no folder nowhere: name one that holds runs, such as the --run_root of 'train'.",
  ),
  (
    "report empty",
    "There are no runs in empty: name a run directory, or a folder that holds some.",
  ),
  (
    "report runs --curve=eval_retrun --x=seconds",
    "--x=seconds is no axis: there are environment_steps, gradient_steps.",
  ),
  (
    "report runs --curve=recent_retrun",
    "No run has a curve 'recent_retrun': did you mean 'recent_return'?",
  ),
  (
    "report runs --filter=sed=9",
    "Runs have no column 'sed': did you mean 'seed'?",
  ),
)
