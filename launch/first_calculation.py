"""`python -m launch.first_calculation`: computes something on every GPU that TensorFlow sees, and names each.

It is a process of its own, since TensorFlow ends the process where a GPU does not compute.
"""

import tensorflow as tf

from launch import gpu


def main() -> None:
  """What the first update of a learner needs: random weights, a product of matrices and a sum."""
  gpu.load_libraries()
  for device in tf.config.list_logical_devices("GPU"):
    with tf.device(device.name):
      weights = tf.random.normal((64, 64))
      tf.reduce_sum(tf.nn.relu(weights @ weights)).numpy()
    print(device.name)


if __name__ == "__main__":
  main()
