"""Frozen dataclasses that describe a run, and the presets."""

from configs.algorithms import DdqnConfig, QrSacConfig, SacConfig, Td3Config
from configs.errors import ServerLost, Stopped, UserError
from configs.learning import CagradConfig, LearnerConfig
from configs.loading import load_config
from configs.presets import PRESETS
from configs.run import (
  ActorConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  NetworkConfig,
  PriorityConfig,
  ReplayConfig,
  RunConfig,
)
from configs.serialization import from_dict, from_json, override, to_dict, to_json, without_defaults
from configs.specs import EventSpec, TableSpec

__all__ = [
  "PRESETS",
  "ActorConfig",
  "CagradConfig",
  "DdqnConfig",
  "EnvironmentConfig",
  "EvaluatorConfig",
  "EventSpec",
  "LearnerConfig",
  "NetworkConfig",
  "PriorityConfig",
  "QrSacConfig",
  "ReplayConfig",
  "RunConfig",
  "SacConfig",
  "ServerLost",
  "Stopped",
  "TableSpec",
  "Td3Config",
  "UserError",
  "from_dict",
  "from_json",
  "load_config",
  "override",
  "to_dict",
  "to_json",
  "without_defaults",
]
