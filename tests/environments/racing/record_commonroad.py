"""Writes commonroad.json: derivatives by commonroad-vehicle-models 3.0.2 (BSD), which this project does not depend on.

    uv run --no-project --python 3.10 --with commonroad-vehicle-models==3.0.2 tests/environments/racing/record_commonroad.py

States move forwards at .2 to 45 m/s, also where slow and fast models mix, with slip of all sizes: backwards and below .1 m/s slip
is defined in another way here. Inputs are within the package's own limits, which it applies and we do not.
"""

import importlib
import json
import math
import pathlib
import random

from vehiclemodels.vehicle_dynamics_std import vehicle_dynamics_std  # type: ignore[import-not-found]

VEHICLES = (1, 2, 3)  # Ford Escort, BMW 320i, VW Vanagon.
STATES = 40
BODY = ("m", "a", "b", "h_s", "I_z", "I_y_w", "R_w", "T_sb", "T_se")


def draw(generator, p):
  """A state and inputs."""
  speed = generator.choice([generator.uniform(0.2, 1.0), generator.uniform(1.0, 45.0)])
  steering = generator.uniform(-0.5, 0.5)
  slip = generator.choice([0.05, 0.8]) * generator.uniform(-1, 1)
  rolling = speed * math.cos(slip) / p.R_w
  wheels = [rolling * generator.choice([generator.uniform(0.95, 1.05), generator.uniform(0.3, 1.8)]) for _ in range(2)]
  yaw_rate = min(1.0, 0.3 * speed) * generator.uniform(-1, 1)
  x, y, yaw = generator.uniform(-50, 50), generator.uniform(-50, 50), generator.uniform(-3, 3)
  most = p.longitudinal.a_max * min(1.0, p.longitudinal.v_switch / speed)
  inputs = [generator.uniform(-0.39, 0.39), generator.uniform(-11.0, most)]
  return [x, y, steering, speed, yaw, yaw_rate, slip, *wheels], inputs


def record(generator, number):
  """A vehicle's parameters and rows."""
  module = importlib.import_module(f"vehiclemodels.parameters_vehicle{number}")
  p = getattr(module, f"parameters_vehicle{number}")()
  rows = []
  for _ in range(STATES):
    state, inputs = draw(generator, p)
    derivative = [float(value) for value in vehicle_dynamics_std(list(state), inputs, p)]
    rows.append({"state": state, "inputs": inputs, "derivative": derivative})
  body = {name: float(getattr(p, name)) for name in BODY}
  tyre = {name: float(value) for name, value in vars(p.tire).items()}
  return {"vehicle": number, "body": body, "tyre": tyre, "rows": rows}


def main():
  """Writes the table."""
  generator = random.Random(0)
  text = json.dumps([record(generator, number) for number in VEHICLES], separators=(",", ":"))
  path = pathlib.Path(__file__).with_name("commonroad.json")
  path.write_text(text.replace('{"state"', '\n{"state"') + "\n")


if __name__ == "__main__":
  main()
