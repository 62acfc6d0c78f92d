"""The public face: the names that user code imports. See docs/ and examples/."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from configs import ActorConfig as ActorConfig
  from configs import CagradConfig as CagradConfig
  from configs import DdpgConfig as DdpgConfig
  from configs import DdqnConfig as DdqnConfig
  from configs import EnvironmentConfig as EnvironmentConfig
  from configs import EpisodesLost as EpisodesLost
  from configs import EvaluatorConfig as EvaluatorConfig
  from configs import EventSpec as EventSpec
  from configs import LearnerConfig as LearnerConfig
  from configs import MixupConfig as MixupConfig
  from configs import NafConfig as NafConfig
  from configs import NetworkConfig as NetworkConfig
  from configs import PriorityConfig as PriorityConfig
  from configs import QrSacConfig as QrSacConfig
  from configs import ReferConfig as ReferConfig
  from configs import ReplayConfig as ReplayConfig
  from configs import RunConfig as RunConfig
  from configs import SacConfig as SacConfig
  from configs import TableSpec as TableSpec
  from configs import Td3Config as Td3Config
  from configs import UserError as UserError
  from configs import VRacerConfig as VRacerConfig
  from configs import load_config as load_config
  from configs import override as override
  from environments import And as And
  from environments import EpisodeEnd as EpisodeEnd
  from environments import EventStep as EventStep
  from environments import Held as Held
  from environments import Info as Info
  from environments import Not as Not
  from environments import Or as Or
  from environments import Region as Region
  from environments import Rising as Rising
  from environments import Then as Then
  from environments import ThreeRooms as ThreeRooms
  from environments import Threshold as Threshold
  from launch.attach import attach as attach
  from launch.finish import Outcome as Outcome
  from launch.train import train as train

# Name -> its module, which is imported at the first use, so that an environment that only needs EventStep stays light.
_MODULES = {
  "ActorConfig": "configs",
  "And": "environments",
  "CagradConfig": "configs",
  "DdpgConfig": "configs",
  "DdqnConfig": "configs",
  "EnvironmentConfig": "configs",
  "EpisodeEnd": "environments",
  "EpisodesLost": "configs",
  "EvaluatorConfig": "configs",
  "EventSpec": "configs",
  "EventStep": "environments",
  "Held": "environments",
  "Info": "environments",
  "LearnerConfig": "configs",
  "MixupConfig": "configs",
  "NafConfig": "configs",
  "NetworkConfig": "configs",
  "Not": "environments",
  "Or": "environments",
  "Outcome": "launch.finish",
  "PriorityConfig": "configs",
  "QrSacConfig": "configs",
  "Region": "environments",
  "ReferConfig": "configs",
  "ReplayConfig": "configs",
  "Rising": "environments",
  "RunConfig": "configs",
  "SacConfig": "configs",
  "TableSpec": "configs",
  "Td3Config": "configs",
  "Then": "environments",
  "ThreeRooms": "environments",
  "Threshold": "environments",
  "UserError": "configs",
  "VRacerConfig": "configs",
  "attach": "launch.attach",
  "load_config": "configs",
  "override": "configs",
  "train": "launch.train",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
  if name not in _MODULES:
    raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
  return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
  return sorted({*globals(), *_MODULES})
