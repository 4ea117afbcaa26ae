"""Schedulers that are wrong in one known way, and the requirement that must catch each."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
TOY = Path(__file__).with_name("toy.py")
STOCK = Path(__file__).parents[2] / "candidates" / "stock.yaml"
# Seconds. Short, so that a Pod nobody wakes is told from one in backoff without a long wait.
MAX_BACKOFF = 2
