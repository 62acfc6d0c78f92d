"""The contract's TensorFlow half: rows in a graph."""

import math

import tensorflow as tf

from replay_server.contract.codec import WORD_BYTES, Field, RowCodec


def unpack(codec: RowCodec, rows: tf.Tensor) -> dict[str, tf.Tensor]:
  """The fields of packed rows, in a TensorFlow graph; `RowCodec.unpack` does the same in numpy.

  Args:
    codec: of the rows.
    rows: float32 [batch, width].

  Returns:
    name -> tensor [batch, *field.shape] of the field's dtype.
  """
  return {field.name: _unpack(field, rows) for field in codec.fields}


def _unpack(field: Field, rows: tf.Tensor) -> tf.Tensor:
  words = rows[:, field.offset : field.offset + field.words]
  # TensorFlow cannot bit-cast to bool; a Boolean is stored as the byte 0 or 1.
  dtype = tf.as_dtype("uint8" if field.dtype == "bool" else field.dtype)
  per_value = dtype.size // WORD_BYTES
  if per_value > 1:
    words = tf.reshape(words, [-1, field.elements, per_value])
  values = words if dtype == tf.float32 else tf.bitcast(words, dtype)
  values = tf.reshape(values, [-1, math.prod(values.shape[1:])])[:, : field.elements]
  values = tf.reshape(values, [-1, *field.shape])
  return tf.cast(values, tf.bool) if field.dtype == "bool" else values
