"""Mistakes in the commands for experiments and theory."""

# Command line -> what it says; see `tests/slipstream/test_mistakes.py` for the names in capitals.
ROWS = (
  (
    "experiment three_room",
    "There is no experiment 'three_room': did you mean 'three_rooms'?",
  ),
  (
    "experiment three_rooms two_rooms",
    "'two_rooms' is not a flag of 'slipstream experiment': flags begin with --.",
  ),
  (
    "experiment three_rooms --seeds=0",
    "--seeds is '0': it must be a positive integer (see 'slipstream experiment --help').",
  ),
  (
    "experiment three_rooms --seeds=many",
    "--seeds is 'many': it must be a positive integer (see 'slipstream experiment --help').",
  ),
  (
    "experiment three_rooms --jobs=-1",
    "--jobs is '-1': it must be a positive integer (see 'slipstream experiment --help').",
  ),
  (
    "experiment three_rooms --budget=papre",
    "The experiment 'three_rooms' has no budget 'papre': did you mean 'paper'?",
  ),
  (
    "experiment three_rooms --methods=uniform,ssett",
    "The experiment 'three_rooms' has no method 'ssett': did you mean 'sset'?",
  ),
  (
    "experiment reaper_stylized",
    "There is no experiment 'reaper_stylized': did you mean 'reaper_stylised'?",
  ),
  (
    "experiment reaper_stylised --methods=per",
    "The experiment 'reaper_stylised' always compares all of its methods: leave out --methods.",
  ),
  (
    "experiment reaper_stylised --budget=papre",
    "The experiment 'reaper_stylised' has no budget 'papre': did you mean 'paper'?",
  ),
  (
    "experiment reaper_stylised --budget=quick --out=file",
    "The folder file cannot be written (File exists): choose another with --out.",
  ),
  (
    "experiment three_rooms --out=file",
    "The folder file cannot be written (Not a directory): choose another with --out.",
  ),
  (
    "experiment three_rooms --out=/proc/results",
    "The folder /proc/results cannot be written (No such file or directory): choose another with --out.",
  ),
  (
    "experiment three_rooms --config.seed=3",
    "'slipstream experiment' takes no --config.* of its own: give it to 'train', 'serve' or 'events'.",
  ),
  (
    "theory",
    "No --eta is given: write for example --eta=0.3 --tau=50 --events=2 --mu=0.001.",
  ),
  (
    "theory --eta=0.3 --tau=50",
    "No --mu is given: write for example --eta=0.3 --tau=50 --events=2 --mu=0.001.",
  ),
  (
    "theory --eta=half --tau=50 --mu=0.01",
    "--eta is 'half': it must be a number (see 'slipstream theory --help').",
  ),
  (
    "theory --eta=1.5 --tau=50 --mu=0.01",
    "eta is 1.5: it is the share of all event tables together, at least 1e-12 and at most 1 - 1e-12.",
  ),
  (
    "theory --eta=0.5 --tau=0 --mu=0.01",
    "tau is 0: it is the length of a history in steps, at least 1.",
  ),
  (
    "theory --eta=0.5 --tau=nan --mu=0.01",
    "tau is nan: it is the length of a history in steps, at least 1.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=2",
    "mu is 2: it is the share of the steps at which an event occurs, at least 1e-12 and below 1.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --events=0",
    "events is 0: the number of event tables is from 1 to 1,000,000.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --gamma=0.9",
    "--gamma needs --rarest, the least probability of a state-action pair: add --rarest=0.001, say.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --rarest=0.9",
    "--rarest is for the bound on samples: add --gamma, the discount.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --accuracy=0.5",
    "--accuracy is for the bound on samples: add --gamma, the discount.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --gamma=1 --rarest=0.1",
    "gamma is 1: it is the discount, at least 1e-12 and at most 1 - 1e-12.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --gamma=0.9 --rarest=0.1 --commonest=0.01",
    "rarest is 0.1 and commonest 0.01: they are the least and the greatest probability of a state-action pair, so "
    "1e-12 <= rarest <= commonest <= 1.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --gamma=0.9 --rarest=0.1 --accuracy=0",
    "accuracy is 0: it must be at least 1e-12 and below 10, the largest value with rewards up to 1.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --plot=missing/a.png",
    "The picture cannot be written to missing/a.png (No such file or directory): name a .png file in a folder that "
    "exists.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --plot=a.pdf",
    "The picture cannot be written to a.pdf: name a .png file in a folder that exists.",
  ),
  (
    "theory --eta=0.5 --tau=9 --mu=0.1 --plot=folder.png",
    "The picture cannot be written to folder.png (Is a directory): name a .png file in a folder that exists.",
  ),
)
