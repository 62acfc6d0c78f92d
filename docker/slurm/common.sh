# shellcheck shell=bash
# What server.sbatch and actors.sbatch share: roles that end in good order, and what becomes of the job then.

# The command, in words that blanks separate; with an image: "apptainer exec ... slipstream".
# shellcheck disable=SC2034
read -ra SLIPSTREAM <<<"${SLIPSTREAM_COMMAND:-$SLIPSTREAM_DIR/.venv/bin/slipstream}"
# How often a job may start again because it failed or lost its server.
MAX_RESTARTS=${MAX_RESTARTS:-50}
# How long roles wait for the server [s]: after a requeue it queues first.
SERVER_TIMEOUT=${SERVER_TIMEOUT:-900}

# The flags of 'slipstream console', separated by blanks, if each worker and the evaluator play on a console beside them; empty for none.
# shellcheck disable=SC2034
read -ra CONSOLE <<<"${SLIPSTREAM_CONSOLE:-}"

# Of each role: its process id, and, when it has ended, its exit code.
declare -A pids=() codes=()
# Roles that were dismissed, as nobody needs them any more: how they end does not matter.
declare -A dismissed=()
# The first exit code that is not 0.
failure=0

say() {
  echo "[$(date '+%F %T')] $*"
}

# start NAME WORD ...: starts a role.
start() {
  local name=$1
  shift
  say "$name: $*"
  "$@" &
  pids[$name]=$!
}

# start_console NAME: starts a console for this host alone, and sets `console` to its address.
start_console() {
  local port
  while port=$((20000 + RANDOM % 12768)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  console=localhost:$port
  start "$1" "${SLIPSTREAM[@]}" console --port="$port" "${CONSOLE[@]}"
}

# dismiss NAME ...: asks roles to leave that nobody needs any more.
dismiss() {
  local name
  for name in "$@"; do
    if [[ -z ${dismissed[$name]:-} ]]; then
      dismissed[$name]=1
      leave "$name"
    fi
  done
}

# leave NAME ...: asks roles to leave.
leave() {
  local name
  for name in "$@"; do
    if [[ -z ${codes[$name]:-} ]]; then
      kill -TERM "${pids[$name]}" 2>/dev/null
    fi
  done
}

# collect: notes which roles have ended.
collect() {
  local name
  for name in "${!pids[@]}"; do
    if [[ -z ${codes[$name]:-} ]] && ! kill -0 "${pids[$name]}" 2>/dev/null; then
      wait "${pids[$name]}"
      codes[$name]=$?
      ((failure)) || [[ -n ${dismissed[$name]:-} ]] || failure=${codes[$name]}
      say "$name has ended with ${codes[$name]}."
    fi
  done
}

# have_ended NAME ...: whether all of these roles have.
have_ended() {
  local name
  for name in "$@"; do
    [[ -n ${codes[$name]:-} ]] || return 1
  done
}

# A signal's trap runs at once during this wait, and not during a plain sleep.
pause() {
  sleep 1 &
  wait $!
}

# is_running: waits for a second; fails if all roles have ended.
is_running() {
  pause
  collect
  ((${#codes[@]} < ${#pids[@]}))
}

# conclude: ends the job, or has it started again, by the first failure and docs/usage.md's table of exit codes.
conclude() {
  local job=$SLURM_JOB_ID
  # The plain id of a task may stand for its whole array.
  if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  fi
  case $failure in
    0 | 2 | 3 | 126 | 127 | 130 | 141) exit "$failure" ;;
    143) ;; # The roles have left in good order, and the run goes on.
    *)
      if ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        say "Job $job has been started again $SLURM_RESTART_COUNT times: it ends with $failure. MAX_RESTARTS allows more."
        exit "$failure"
      fi
      ;;
  esac
  # A job that was cancelled would come back, and one that is preempted comes back anyway.
  local state
  state=$(squeue --noheader --jobs="$job" --format=%T)
  if [[ $state != RUNNING ]]; then
    say "Slurm ends job $job (${state,,}), so it does not start itself again; exit code $failure."
    exit "$failure"
  fi
  say "Job $job is started again after exit code $failure."
  scontrol requeue "$job"
  exit "$failure"
}
