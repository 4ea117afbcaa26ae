"""How a descriptor's patches meet a manifest."""

import copy
from typing import Any

Json = dict[str, Any]

# Name in a patch that stands for every item of a list of named things, such as all containers.
EVERY = "*"


def merged(manifest: Json, patch: Json) -> Json:
    """Return the manifest with the patch applied, in the way that suits Pods and nodes. Neither is changed.

    Mappings merge key by key and `null` removes a key. Items with a `name` (containers, volumes, environment) merge by
    name, `"*"` for all that are there. The terms of a required node affinity hold together with those of the manifest,
    so neither loses its condition. Other lists (tolerations, ...) gain what they lack. Anything else is replaced.
    """
    result = copy.deepcopy(manifest)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key == "nodeSelectorTerms" and result.get(key):
            result[key] = [_both(mine, theirs) for mine in result[key] for theirs in value]
        elif isinstance(value, dict):
            kept = result.get(key)
            result[key] = merged(kept if isinstance(kept, dict) else {}, value)
        elif isinstance(value, list):
            kept = result.get(key)
            result[key] = _list(kept if isinstance(kept, list) else [], value)
        else:
            result[key] = value
    return result


def _both(one: Json, other: Json) -> Json:
    """Join two node selector terms: all their expressions must hold."""
    return {key: _list(one.get(key, []), other.get(key, [])) for key in {**one, **other}}


def _list(items: list[Any], patch: list[Any]) -> list[Any]:
    result = list(items)
    for item in patch:
        name = item.get("name") if isinstance(item, dict) else None
        at = [i for i, old in enumerate(result) if isinstance(old, dict) and name in (old.get("name"), EVERY)]
        if name is not None and at:
            for index in at:
                result[index] = merged(result[index], {**item, "name": result[index].get("name")})
        elif name != EVERY:
            new = merged({}, item) if isinstance(item, dict) else copy.deepcopy(item)
            if new not in result:
                result.append(new)
    return result
