"""The calculator of the SSET paper's theory: numbers by hand, round trips, and a tabular simulation that it has to fit."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from configs import UserError
from experiments.theory import LEAST, Setting, exponent, guarantee, history_bound, lambert_w_of_exp, monolithic_samples
from tests.actors.oracle import Episode, Event, Row, Step, replay


@pytest.mark.parametrize(
  ("z", "w"),
  [(math.e, 1.0), (1.0, 0.5671432904097838), (2 * math.e**2, 2.0), (0.1 * math.exp(0.1), 0.1), (1e-12, 1e-12)],
)
def test_lamberts_w_by_hand(z, w):
  assert lambert_w_of_exp(math.log(z)) == pytest.approx(w, rel=1e-11)


@settings(deadline=None)
@given(st.floats(-1e4, 1e6))
def test_lamberts_w_solves_its_equation_for_every_argument(x):
  w = lambert_w_of_exp(x)
  if x < -700:  # W_0(z) rounds to z there, and both may be too small for a float.
    assert w == math.exp(x)
  else:
    assert w + math.log(w) == pytest.approx(x, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
  ("setting", "m"),
  [
    # (1 - eta)^m / ((m + 1) n mu): 1 / (2 * .005), .5 / (2 * 1 * .005), .25 / (3 * .001), .81 / (3 * 3 * .001).
    (Setting(eta=0.5, tau=100, events=2, mu=0.005), 0),
    (Setting(eta=0.5, tau=50, events=1, mu=0.005), 1),
    (Setting(eta=0.5, tau=250 / 3, events=1, mu=0.001), 2),
    (Setting(eta=0.1, tau=90, events=3, mu=0.001), 2),
    # A longer history than is covered by the proof: .5^-.5 / (.5 * .001).
    (Setting(eta=0.5, tau=2000 * math.sqrt(2), events=1, mu=0.001), -0.5),
  ],
)
def test_m_by_hand(setting, m):
  assert exponent(setting) == pytest.approx(m, abs=1e-9)


def test_the_guarantee_by_hand():
  result = guarantee(Setting(eta=0.5, tau=50, events=1, mu=0.005))
  assert result.over_sampling == pytest.approx(2.0)
  assert result.sample_share == pytest.approx(0.25)
  assert result.longest_history == pytest.approx(200.0)


def test_nothing_is_promised_for_histories_that_are_too_long():
  result = guarantee(Setting(eta=0.5, tau=201, events=1, mu=0.005))
  assert -1 < result.m < 0
  assert (result.over_sampling, result.sample_share) == (None, None)
  edge = guarantee(Setting(eta=0.5, tau=199.99, events=1, mu=0.005))
  assert edge.over_sampling == pytest.approx(1, abs=1e-3)


etas, ms, counts = st.floats(0.001, 0.999), st.floats(-0.9, 30), st.integers(1, 31)


@settings(deadline=None)
@given(etas, ms, counts, st.floats(1e-9, 0.5))
def test_m_gives_tau_and_tau_gives_m(eta, m, events, mu):
  tau = history_bound(eta, m, events, mu)
  assume(tau >= 1)
  assert exponent(Setting(eta, tau, events, mu)) == pytest.approx(m, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(etas, st.floats(1, 1e4), counts, st.floats(1e-9, 0.5))
def test_tau_gives_m_and_m_gives_tau(eta, tau, events, mu):
  setting = Setting(eta, tau, events, mu)
  m = exponent(setting)
  assert m > -1
  assert (m >= -1e-9) == (events * tau * mu <= 1 + 1e-9)
  assert history_bound(eta, m, events, mu) == pytest.approx(tau, rel=1e-6)
  assert exponent(dataclasses.replace(setting, tau=tau * 1.01)) < m


def test_nothing_that_is_allowed_leaves_the_range_of_numbers():
  for eta, tau, events, mu in itertools.product(
    (LEAST, 0.5, 1 - LEAST), (1, 1e300), (1, 1_000_000), (LEAST, 1 - LEAST)
  ):
    found = guarantee(Setting(eta, tau, events, mu))
    assert math.isfinite(found.m)
    assert found.over_sampling is None or math.isfinite(found.over_sampling)
  samples = monolithic_samples(1 - LEAST, LEAST, LEAST, 1.0)
  assert math.isfinite(samples)
  assert samples > monolithic_samples(LEAST, 0.5, 0.5, 0.5) > 0


def test_the_bound_of_proposition_1_by_hand():
  # 832 * .25 / (.5^5 * .25) * ln(4 / (.5 * .5)) * .5 / .125 = 26624 * ln(16) * 4.
  assert monolithic_samples(0.5, 0.5, rarest=0.5, commonest=0.5) == pytest.approx(26624 * math.log(16) * 4)


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (
      lambda: Setting(0.0, 1, 1, 0.1),
      r"^eta is 0: it is the share of all event tables together, at least 1e-12 and at most 1 - 1e-12\.$",
    ),
    (lambda: Setting(1.0, 1, 1, 0.1), r"^eta is 1"),
    (lambda: Setting(float("nan"), 1, 1, 0.1), r"^eta is nan"),
    (lambda: Setting(0.5, 0.5, 1, 0.1), r"^tau is 0\.5: it is the length of a history in steps, at least 1\.$"),
    (lambda: Setting(0.5, float("inf"), 1, 0.1), r"^tau is inf"),
    (lambda: Setting(0.5, 1, 0, 0.1), r"^events is 0: the number of event tables is from 1 to 1,000,000\.$"),
    (lambda: Setting(0.5, 1, 10**400, 0.1), r"^events is 1000"),
    (
      lambda: Setting(0.5, 1, 1, 0.0),
      r"^mu is 0: it is the share of the steps at which an event occurs, at least 1e-12",
    ),
    (lambda: Setting(0.5, 1, 1, 5e-324), r"^mu is 4\.94066e-324"),
    (lambda: Setting(0.5, 1, 1, 1.0), r"^mu is 1"),
    (
      lambda: monolithic_samples(1.0, 0.1, 0.1, 0.1),
      r"^gamma is 1: it is the discount, at least 1e-12 and at most 1 -",
    ),
    (
      lambda: monolithic_samples(0.5, 2.0, 0.1, 0.1),
      r"^accuracy is 2: it must be at least 1e-12 and below 2, the largest value",
    ),
    (
      lambda: monolithic_samples(0.5, 0.1, 0.0, 0.1),
      r"^rarest is 0 and commonest 0\.1: .* 1e-12 <= rarest <= commonest <= 1",
    ),
    (lambda: monolithic_samples(0.9, 0.1, 1e-110, 0.1), r"^rarest is 1e-110"),
    (lambda: monolithic_samples(0.5, 0.1, 0.2, 0.1), r"^rarest is 0\.2 and commonest 0\.1"),
  ],
)
def test_what_is_out_of_range_is_refused_with_what_it_is(make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()


# From here on the simulation, in which the oracle of the adder's tests fills tables as Algorithm 1 says.

UNLIMITED = 10**9


def fill(episodes: Sequence[Sequence[int]], tau: int, tables: int) -> dict[str, list[tuple[int, int]]]:
  """The (episode, step) in every table, for episodes of event masks; table i belongs to bit i."""
  names = [f"event_{bit}" for bit in range(tables)]
  rows: dict[str, list[Row]] = replay(
    [Episode([Step(0, 0.0, 1.0, mask) for mask in masks], terminated=False) for masks in episodes],
    [Event(name, tau) for name in names],
    {"default": UNLIMITED, **dict.fromkeys(names, UNLIMITED)},
    n_step=1,
    gamma=1.0,
    first_episode_id=0,
  )
  return {name: [(row["episode"], row["step"]) for row in held] for name, held in rows.items()}


def mixture(tables: dict[str, list[tuple[int, int]]], eta: float) -> dict[tuple[int, int], float]:
  """The probability with which each transition is drawn: the event tables share eta, and items are uniform within."""
  default, *events = tables.values()
  probabilities = dict.fromkeys(default, (1 - eta) / len(default))
  for held in events:
    for key in held:
      probabilities[key] += eta / len(events) / len(held)
  return probabilities


def test_the_mixture_by_hand():
  # One episode of four steps, with an event at the third; tau = 2, eta = .5. The third is drawn with 1/8 + 1/4.
  tables = fill([[0, 0, 1, 0]], tau=2, tables=1)
  assert mixture(tables, 0.5) == {(0, 0): 0.125, (0, 1): 0.375, (0, 2): 0.375, (0, 3): 0.125}


@settings(deadline=None, max_examples=100)
@given(
  st.lists(
    st.tuples(st.integers(1, 120), st.lists(st.tuples(st.integers(0, 119), st.integers(1, 7)), max_size=3)),
    min_size=1,
    max_size=6,
  ),
  st.integers(1, 15),
  st.integers(1, 3),
  st.floats(0.05, 0.95),
)
@example([(21, [(0, 1), (1, 1), (2, 1)])], 7, 1, 0.75)  # n tau mu is 1, and m is 0 except for rounding.
def test_lemma_1_holds_for_every_transition_in_event_tables(layout, tau, n, eta):
  episodes = [[0] * length for length, _ in layout]
  for masks, (length, events) in zip(episodes, layout, strict=True):
    for step, mask in events:
      masks[step % length] |= mask & (2**n - 1)
  steps = sum(map(len, episodes))
  firings = [sum(mask >> bit & 1 for masks in episodes for mask in masks) for bit in range(n)]
  assume(min(firings) > 0)
  mu = max(firings) / steps
  assume(mu < 1 and n * tau * mu <= 1)
  tables = fill(episodes, tau, n)
  probabilities = mixture(tables, eta)
  bound = guarantee(Setting(eta, tau, n, mu)).over_sampling
  assert bound is not None
  in_events = {key for name, held in tables.items() if name != "default" for key in held}
  least = min(probabilities[key] for key in in_events) * steps
  assert least >= bound * (1 - 1e-9)
  # The tight bound, which docs/theory.md adds to the paper's.
  assert least >= (eta / (n * tau * mu) + 1 - eta) * (1 - 1e-9) >= bound * (1 - 2e-9)


def test_the_tight_bound_is_reached_where_no_history_overlaps_another():
  tables = fill([[0] * 19 + [1]] * 3, tau=5, tables=1)
  least = min(mixture(tables, 0.4)[key] for key in tables["event_0"]) * 60
  assert least == pytest.approx(0.4 / (5 * 0.05) + 0.6)


@dataclasses.dataclass(frozen=True)
class Transition:
  """One step in the chain."""

  state: int
  action: int
  reward: float
  next_state: int


LENGTH, TIME_LIMIT, DISCOUNT = 8, 30, 0.9


def run_chain(rng: np.random.Generator, episodes: int) -> list[list[Transition]]:
  """A random policy in a chain of states 0 ... 7 with the goal behind it: action 1 moves on, action 0 goes back to 0."""
  played = []
  for _ in range(episodes):
    state, steps = 0, []
    for action in rng.integers(0, 2, TIME_LIMIT).tolist():
      following = state + 1 if action else 0
      steps.append(Transition(state, action, float(following == LENGTH), following))
      state = following
      if state == LENGTH:
        break
    played.append(steps)
  return played


def chain_tables(played: list[list[Transition]], tau: int) -> dict[str, list[tuple[int, int]]]:
  """Tables with two events: half-way, and the goal."""
  masks = [[(step.next_state == LENGTH // 2) + 2 * (step.next_state == LENGTH) for step in steps] for steps in played]
  return fill(masks, tau, tables=2)


def best_values() -> np.ndarray:
  """Q*(s, 1) of the chain: the reward is 1 at the end of 8 - s steps."""
  return DISCOUNT ** np.arange(LENGTH - 1, -1, -1)


def q_learning_samples(transitions: Sequence[Transition], probabilities: np.ndarray, rng: np.random.Generator) -> int:
  """Samples that target Q-learning (the paper's Algorithm 2) takes until Q(s, 1) is within 0.05 for every state."""
  q = np.zeros((LENGTH + 1, 2))
  best, inner, drawn = best_values(), 200, 0
  while np.abs(q[:LENGTH, 1] - best).max() > 0.05:
    targets = DISCOUNT * q.max(axis=1)
    for index in rng.choice(len(transitions), inner, p=probabilities):
      x = transitions[index]
      q[x.state, x.action] += 0.2 * (x.reward + targets[x.next_state] - q[x.state, x.action])
    drawn += inner
    assert drawn < 2_000_000, "it does not converge"
  return drawn


def test_lemma_1_holds_on_a_chain_and_is_about_transitions_rather_than_states():
  played = run_chain(np.random.default_rng(0), episodes=400)
  tables = chain_tables(played, tau=4)
  steps = sum(map(len, played))
  eta = 0.3
  firings = [sum(x.next_state == state for episode in played for x in episode) for state in (LENGTH // 2, LENGTH)]
  setting = Setting(eta, tau=4, events=2, mu=max(firings) / steps)
  bound = guarantee(setting).over_sampling
  assert bound is not None
  assert bound > 1.2
  probabilities = mixture(tables, eta)
  keys = list(probabilities)
  # With transitions that are drawn this time, as a learner sees them.
  counts = np.random.default_rng(1).multinomial(2_000_000, np.array([probabilities[key] for key in keys]))
  rates = dict(zip(keys, counts / 2_000_000 * steps, strict=True))
  for name in ("event_0", "event_1"):
    assert np.mean([rates[key] for key in tables[name]]) >= bound
  # State 0 is in histories, but most of its visits lead nowhere: as a state it is drawn less often than the bound says.
  visits = [key for key in keys if played[key[0]][key[1]].state == 0]
  assert any(key in set(tables["event_0"]) for key in visits)
  assert np.mean([rates[key] for key in visits]) < bound


def test_target_q_learning_takes_fewer_samples_with_event_tables():
  uniform, stratified = [], []
  for seed in range(8):
    rng = np.random.default_rng(seed)
    played = run_chain(rng, episodes=300)
    mixed = mixture(chain_tables(played, tau=4), eta=0.5)
    transitions = [played[episode][step] for episode, step in mixed]
    uniform.append(q_learning_samples(transitions, np.full(len(mixed), 1 / len(mixed)), rng))
    stratified.append(q_learning_samples(transitions, np.array(list(mixed.values())), rng))
  assert all(fewer < more for fewer, more in zip(stratified, uniform, strict=True))
  assert np.median(uniform) > 2 * np.median(stratified)
