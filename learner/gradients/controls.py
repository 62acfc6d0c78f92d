"""Names of the numbers and columns that a source gives to updates, and of what updates give back (ReF-ER, V-RACER)."""

# Controls: what rewards are divided by; beta and c_max of ReF-ER, and what learning rates are multiplied by.
REWARD_SCALE = "reward_scale"
BETA, LARGEST_RATIO, RATE_SCALE = "beta", "largest_ratio", "rate_scale"
# Columns: the estimate of a step's return, and 1 where it contains the value of the next observation, else 0.
Q_RET, IS_END = "q_ret", "is_end"
# Outputs: V of a row's observation and of its next one; Q of its observation and action; log pi(a|s) - log mu(a|s); KL(mu || pi).
VALUE, NEXT_VALUE, ACTION_VALUE, LOG_RATIO, DIVERGENCE = (
  "value",
  "next_value",
  "action_value",
  "log_ratio",
  "divergence",
)
