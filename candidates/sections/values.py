"""What a field may hold, what is said of anything else, and the base of every section."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from candidates.patch import Json


class Refused(ValueError):
    """A value that a validator refuses; `remedy` says what to write instead."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(wrong)
        self.remedy = remedy


DURATION = r"^(\d+(\.\d+)?(ms|s|m|h))+$"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NAME = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
QUANTITY = r"^\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
MOST_PORT = 65535


def seconds(duration: object) -> float:
    """Turn a duration of Kubernetes (`1m30s`, `500ms`) into seconds."""
    if not isinstance(duration, str) or not re.match(DURATION, duration):
        raise Refused(f"{duration!r} is no duration", "write a number with its unit, such as 500ms, 10s, 1m30s or 24h")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", duration))


def _quantity(quantity: object) -> str:
    if isinstance(quantity, int) and not isinstance(quantity, bool) and quantity >= 0:
        return str(quantity)
    if not isinstance(quantity, str) or not re.match(QUANTITY, quantity):
        raise Refused(f"{quantity!r} is no quantity", "write one of Kubernetes, such as 8, 500m or 16Gi")
    return quantity


def _port(port: object) -> int | None:
    if port == "auto":
        return None
    if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= MOST_PORT:
        return port
    raise Refused(f"{port!r} is no port", "write auto, or a number where the program cannot be told its port")


def _endpoint_port(port: object) -> str | int:
    if isinstance(port, str) and re.match(NAME, port):
        return port
    if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= MOST_PORT:
        return port
    raise Refused(f"{port!r} is no port", "write the name of a process's port, or the number of a container's")


def _image(text: str, info: ValidationInfo) -> str:
    return _file(text, info) if text.endswith(".tar") else text


def _figure(value: object) -> object:
    if isinstance(value, str | int | float):
        return value
    raise Refused(f"{value!r} is no single value", "write a number, a text, true or false")


def _signal(name: str) -> str:
    if name in signal.Signals.__members__:
        return name
    raise Refused(f"{name!r} is no signal", "write its name, such as SIGTERM or SIGINT")


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise Refused(f"{text!r} is no regular expression: {error}", "mend it, or escape it with \\") from error
    return text


def _file(text: str, info: ValidationInfo) -> str:
    return inside(Path(info.context or "."), text)


def inside(folder: Path, text: str) -> str:
    """Return `text` if it is the path of a file in `folder` or below.

    Raises:
        Refused: it is not.
    """
    folder = folder.resolve()
    file = (folder / text).resolve()
    if not file.is_relative_to(folder):
        raise Refused(f"{text!r} lies outside the descriptor's folder", f"move the file into {folder} or below")
    if not file.is_file():
        raise Refused(f"there is no file {text!r} in {folder}", "make it, or correct the path")
    return text


@dataclass(frozen=True)
class Form:
    """The form of a text, for validation and schema; `remedy` says what to write."""

    pattern: str
    remedy: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        return {**handler(schema), "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not re.search(self.pattern, text):
            raise Refused(f"{text!r} has the wrong form", self.remedy)
        return text


Text = Annotated[str, Form(r"\S", "write some text")]
Name = Annotated[str, Form(NAME, "write a-z, 0-9 and -, at most 40")]
ObjectName = Annotated[str, Form(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", "write a-z, 0-9, - and .")]
FileName = Annotated[str, Form(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "write a plain file name, such as config.yaml")]
Variable = Annotated[str, Form(r"^[A-Za-z_][A-Za-z0-9_]*$", "write a name such as POD_NAMESPACE")]
Minor = Annotated[str, Form(r"^1\.\d{1,3}$", 'write the minor in quotes, such as "1.37"')]
RequirementId = Annotated[str, Form(r"^[A-Z]+-\d+$", "write the id of a requirement, such as OBS-9")]
Resource = Annotated[
    str,
    Form(
        r"^([a-z0-9.-]+/v[a-z0-9]+/)?[a-z0-9]+$",
        "write it as in its URL, such as scheduling.x-k8s.io/v1alpha1/podgroups",
    ),
]
Package = Annotated[str, Form(r"^\.(/[^\s/]+)*$", "write it as its path in the module, such as ./cmd/scheduler")]
ModFile = Annotated[str, Form(r"^[^/\s]+\.mod$", "write the name of a file beside go.mod, such as new.mod")]
FieldPath = Annotated[str, Form(r"^[A-Za-z]\w*(\.[A-Za-z]\w*)*$", "write names with dots, such as status.slots")]
UrlPath = Annotated[str, Form(r"^/\S*$", "write a path that begins with /, such as /metrics")]
File = Annotated[str, AfterValidator(_file)]
Duration = Annotated[float, BeforeValidator(seconds), WithJsonSchema({"type": "string", "pattern": DURATION})]
Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": QUANTITY}]}),
]
Port = Annotated[
    int | None,
    BeforeValidator(_port),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": MOST_PORT}]}),
]
EndpointPort = Annotated[
    str | int,
    BeforeValidator(_endpoint_port),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": NAME}, {"type": "integer", "minimum": 1, "maximum": MOST_PORT}]}
    ),
]
Image = Annotated[Text, AfterValidator(_image)]
Figure = Annotated[
    str | int | float | bool,
    BeforeValidator(_figure),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
Regex = Annotated[str, AfterValidator(_regex)]
SignalName = Annotated[str, AfterValidator(_signal)]


class Model(BaseModel):
    """Base of every section: unknown keys are refused, nothing is converted, nothing changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, use_attribute_docstrings=True,
        allow_inf_nan=False,
    )  # fmt: skip
