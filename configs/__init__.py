"""Frozen dataclasses that describe a run, and the presets."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from configs.algorithms import DdpgConfig as DdpgConfig
  from configs.algorithms import DdqnConfig as DdqnConfig
  from configs.algorithms import NafConfig as NafConfig
  from configs.algorithms import QrSacConfig as QrSacConfig
  from configs.algorithms import SacConfig as SacConfig
  from configs.algorithms import Td3Config as Td3Config
  from configs.algorithms import VRacerConfig as VRacerConfig
  from configs.consoles import ConsolesConfig as ConsolesConfig
  from configs.errors import EpisodesLost as EpisodesLost
  from configs.errors import ServerLost as ServerLost
  from configs.errors import Stopped as Stopped
  from configs.errors import UserError as UserError
  from configs.learning import CagradConfig as CagradConfig
  from configs.learning import LearnerConfig as LearnerConfig
  from configs.loading import load_config as load_config
  from configs.mixup import MixupConfig as MixupConfig
  from configs.presets import PRESETS as PRESETS
  from configs.refer import ReferConfig as ReferConfig
  from configs.run import ActorConfig as ActorConfig
  from configs.run import EnvironmentConfig as EnvironmentConfig
  from configs.run import EvaluatorConfig as EvaluatorConfig
  from configs.run import NetworkConfig as NetworkConfig
  from configs.run import PriorityConfig as PriorityConfig
  from configs.run import ReplayConfig as ReplayConfig
  from configs.run import RunConfig as RunConfig
  from configs.serialization import from_dict as from_dict
  from configs.serialization import from_json as from_json
  from configs.serialization import override as override
  from configs.serialization import to_dict as to_dict
  from configs.serialization import to_json as to_json
  from configs.serialization import without_defaults as without_defaults
  from configs.specs import EventSpec as EventSpec
  from configs.specs import TableSpec as TableSpec

# Name -> its module, which is imported at the first use: a console has neither cattrs nor acme.
_MODULES = {
  "PRESETS": "configs.presets",
  "ActorConfig": "configs.run",
  "CagradConfig": "configs.learning",
  "ConsolesConfig": "configs.consoles",
  "DdpgConfig": "configs.algorithms",
  "DdqnConfig": "configs.algorithms",
  "EnvironmentConfig": "configs.run",
  "EpisodesLost": "configs.errors",
  "EvaluatorConfig": "configs.run",
  "EventSpec": "configs.specs",
  "LearnerConfig": "configs.learning",
  "MixupConfig": "configs.mixup",
  "NafConfig": "configs.algorithms",
  "NetworkConfig": "configs.run",
  "PriorityConfig": "configs.run",
  "QrSacConfig": "configs.algorithms",
  "ReferConfig": "configs.refer",
  "ReplayConfig": "configs.run",
  "RunConfig": "configs.run",
  "SacConfig": "configs.algorithms",
  "ServerLost": "configs.errors",
  "Stopped": "configs.errors",
  "TableSpec": "configs.specs",
  "Td3Config": "configs.algorithms",
  "UserError": "configs.errors",
  "VRacerConfig": "configs.algorithms",
  "from_dict": "configs.serialization",
  "from_json": "configs.serialization",
  "load_config": "configs.loading",
  "override": "configs.serialization",
  "to_dict": "configs.serialization",
  "to_json": "configs.serialization",
  "without_defaults": "configs.serialization",
}

__all__ = [
  "PRESETS",
  "ActorConfig",
  "CagradConfig",
  "ConsolesConfig",
  "DdpgConfig",
  "DdqnConfig",
  "EnvironmentConfig",
  "EpisodesLost",
  "EvaluatorConfig",
  "EventSpec",
  "LearnerConfig",
  "MixupConfig",
  "NafConfig",
  "NetworkConfig",
  "PriorityConfig",
  "QrSacConfig",
  "ReferConfig",
  "ReplayConfig",
  "RunConfig",
  "SacConfig",
  "ServerLost",
  "Stopped",
  "TableSpec",
  "Td3Config",
  "UserError",
  "VRacerConfig",
  "from_dict",
  "from_json",
  "load_config",
  "override",
  "to_dict",
  "to_json",
  "without_defaults",
]


def __getattr__(name: str) -> Any:
  module = _MODULES.get(name)
  if module is None:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  value = globals()[name] = getattr(importlib.import_module(module), name)
  return value
