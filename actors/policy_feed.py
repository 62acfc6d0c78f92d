"""`PolicyFeed`: the policies that a worker acts by, as the learner publishes them."""

import threading
import time

from actors.behaviour import WarmUp
from configs import ActorConfig, ServerLost, Stopped, UserError
from replay_server.contract.activity import Activity
from replay_server.contract.policy import PolicyLate, PolicySnapshot, PolicySource
from replay_server.contract.progress import Progress

POLICY_POLL_SECONDS = 0.5


class PolicyFeed:
  """Fetches the latest policy, and waits for the first one once the random warm-up is over."""

  def __init__(
    self,
    source: PolicySource,
    progress: Progress,
    warm_up: WarmUp,
    activity: Activity,
    config: ActorConfig,
    stop: threading.Event,
  ):
    """Takes the source.

    Args:
      source: of published policies.
      progress: of the worker's loop, noted while it waits.
      warm_up: gets the server's count of steps.
      activity: of the worker, told what is waited for.
      config: says how long to wait.
      stop: ends the wait.
    """
    self._source = source
    self._progress = progress
    self._warm_up = warm_up
    self._activity = activity
    self._timeout_seconds = config.weights_timeout_seconds
    self._stop = stop

  @property
  def is_reading(self) -> bool:
    """Whether a policy is being fetched; may be read by any thread."""
    return self._source.is_reading

  def latest(self) -> PolicySnapshot | None:
    """The latest policy. If there is none, returns None during the warm-up, and waits for one afterwards.

    Raises:
      UserError: no learner has published one in time.
      PolicyLate: one was published, and did not arrive in time.
      Stopped: asked to stop while waiting.
    """
    deadline = time.monotonic() + self._timeout_seconds
    late: PolicyLate | None = None
    while True:
      self._progress.note()
      try:
        latest = self._source.fetch()
        self._warm_up.note(self._source.environment_steps)
        if latest is not None or self._warm_up.steps_left > 0:
          return latest
        self._activity.waits("waiting for a learner's first policy", "learner", "it publishes its first policy")
      except PolicyLate as error:
        late = error
        self._activity.waits("waiting for the policy to arrive", "server", "the policy arrives")
      except ServerLost:  # The process's watchdog decides when to give up.
        self._activity.waits("waiting for the server", "server", "it answers")
      if time.monotonic() > deadline:
        if late is not None:
          raise late
        raise UserError(
          f"No learner has published a policy for {self._timeout_seconds:g} s: start one with 'slipstream learn', or raise "
          "actor.weights_timeout_seconds."
        )
      if self._stop.wait(POLICY_POLL_SECONDS):
        raise Stopped("Stopped while waiting for the first policy.")
