"""The Kubernetes API in plain dicts: the manifest is the evidence, so nothing may drop or rename its fields.

The only module that imports `kubernetes`. A resource is named as in its URL: `pods` (core/v1) or
`group/version/plural`, for example `apps/v1/deployments`.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import urllib3
from kubernetes import client, config
from kubernetes.utils import parse_quantity

Json = dict[str, Any]
Body = Json | list[Json]
PatchKind = Literal["merge", "strategic", "json"]

__all__ = ["ApiError", "ApiUnreachable", "Body", "Json", "Kube", "Listed", "WatchStream", "parse_quantity", "path_of"]

# Seconds. Every request ends: a hung API server must not hang the suite.
REQUEST_TIMEOUT = 30.0
CONNECTIONS = 32


class ApiError(Exception):
    """The API server refused a request: `status` is the HTTP code, `reason` the machine-readable word."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class ApiUnreachable(Exception):
    """The API server did not answer (connection refused, reset or timed out)."""


@dataclass(frozen=True)
class Listed:
    """One list answer: its items and the resourceVersion a watch may start from."""

    items: list[Json]
    resource_version: str


class Kube:
    """One identity's connection to one API server. Thread-safe."""

    def __init__(
        self, kubeconfig: Path, *, context: str | None = None, impersonate: str | None = None, group: str | None = None
    ) -> None:
        """Connect; as the user `impersonate`, a member of `group`, where they are given."""
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), context=context, client_configuration=settings)
        settings.connection_pool_maxsize = CONNECTIONS
        settings.proxy = None  # every API server we speak to is on this machine or named on purpose: no detours
        # An API server redirects nobody; what it proxies may try.
        settings.retries = urllib3.Retry(3, redirect=False)
        self._api = client.ApiClient(settings)
        self._api.user_agent = "unreserve"
        self._headers = {"Impersonate-User": impersonate} if impersonate else {}
        self._headers |= {"Impersonate-Group": group} if group else {}
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def request(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float | tuple[float, float] = REQUEST_TIMEOUT,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the unread answer.

        Raises:
            ApiError: the server answered with a status of 400 or more.
            ApiUnreachable: there was no answer.
        """
        headers = {"Accept": "application/json", "Content-Type": content_type, **self._headers}
        serialized = self._api.param_serialize(
            method, path, query_params=list((query or {}).items()), header_params=headers, body=body,
            auth_settings=["BearerToken"],
        )  # fmt: skip
        try:
            answer = self._api.call_api(*serialized, _request_timeout=timeout)
            raw: urllib3.BaseHTTPResponse = answer.response
            if raw.status < 400:  # noqa: PLR2004 - the HTTP boundary between success and refusal
                return raw
            text = raw.read().decode(errors="replace")
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise ApiUnreachable(f"{method} {path}: {error}") from error
        try:
            status = json.loads(text)
            raise ApiError(raw.status, status.get("reason", ""), status.get("message", text))
        except (json.JSONDecodeError, AttributeError):
            raise ApiError(raw.status, "", text) from None

    def get(self, resource: str, name: str, namespace: str | None = None) -> Json:
        """Read one object."""
        return self._json("GET", path_of(resource, namespace, name))

    def find(self, resource: str, name: str, namespace: str | None = None) -> Json | None:
        """Read one object, or None where there is none of that name."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:  # noqa: PLR2004
                return None
            raise

    def list(self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listed:
        """Read all objects, in one namespace or everywhere; `labels` and `fields` are selectors."""
        query = {"labelSelector": labels} if labels else {}
        query |= {"fieldSelector": fields} if fields else {}
        answer = self._json("GET", path_of(resource, namespace), query=query)
        return Listed(answer.get("items") or [], answer["metadata"]["resourceVersion"])

    def create(
        self, resource: str, body: Json, namespace: str | None = None, *, name: str | None = None,
        subresource: str | None = None, dry_run: bool = False,
    ) -> Json:  # fmt: skip
        """Create an object, or post to a subresource such as `binding` of `name`."""
        query = {"dryRun": "All"} if dry_run else None
        return self._json("POST", path_of(resource, namespace, name, subresource), body, query=query)

    def patch(
        self, resource: str, name: str, patch: Body, namespace: str | None = None, *,
        subresource: str | None = None, kind: PatchKind = "merge", dry_run: bool = False,
    ) -> Json:  # fmt: skip
        """Change an object; a merge patch unless told otherwise."""
        query = {"dryRun": "All"} if dry_run else None
        prefix = {"merge": "merge-patch", "strategic": "strategic-merge-patch", "json": "json-patch"}[kind]
        path = path_of(resource, namespace, name, subresource)
        return self._json("PATCH", path, patch, content_type=f"application/{prefix}+json", query=query)

    def delete(
        self, resource: str, name: str, namespace: str | None = None, *, grace: int | None = None, cascade: bool = False
    ) -> bool:
        """Delete an object; False where it was gone already.

        `grace` is the grace period in seconds; with `cascade` what it owns is deleted after it, whatever its kind.
        """
        query = {} if grace is None else {"gracePeriodSeconds": str(grace)}
        query |= {"propagationPolicy": "Background"} if cascade else {}
        try:
            self._json("DELETE", path_of(resource, namespace, name), query=query)
        except ApiError as error:
            if error.status != 404:  # noqa: PLR2004
                raise
            return False
        return True

    def delete_all(self, resource: str, namespace: str | None = None, *, labels: str = "") -> None:
        """Delete every object of a kind, at once (grace period 0)."""
        query = {"gracePeriodSeconds": "0"} | ({"labelSelector": labels} if labels else {})
        answer = self.request("DELETE", path_of(resource, namespace), query=query)
        answer.drain_conn()  # it lists them all, and nobody reads that
        answer.release_conn()

    def kind_of(self, resource: str) -> str:
        """Return the kind that the API server serves under a resource."""
        kind: str = self._json("GET", path_of(resource))["kind"]
        return kind.removesuffix("List")

    def apply(self, manifest: Json, *, namespace: str = "default") -> Json:
        """Server-side apply one manifest of any kind the server knows.

        Raises:
            ApiError: 404 where the server serves no such kind.
        """
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        plural, namespaced = self._served(version, kind)
        where = metadata.get("namespace", namespace) if namespaced else None
        resource = plural if version == "v1" else f"{version}/{plural}"
        return self._json(
            "PATCH", path_of(resource, where, metadata["name"]), manifest,
            content_type="application/apply-patch+yaml", query={"fieldManager": "unreserve", "force": "true"},
        )  # fmt: skip

    def watch(self, resource: str, resource_version: str, *, seconds: int, idle: float) -> "WatchStream":
        """Open a watch for everything after `resource_version`, bookmarks included.

        The server ends the stream after `seconds`; a connection silent for `idle` seconds counts as lost.

        Raises:
            ApiError: 410 where the version is too old to start from; inside a stream it is an event of type ERROR.
        """
        query = {
            "watch": "true", "resourceVersion": resource_version, "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }  # fmt: skip
        return WatchStream(
            resource, self.request("GET", path_of(resource), query=query, timeout=(REQUEST_TIMEOUT, idle))
        )

    def close(self) -> None:
        """Close the pooled connections."""
        self._api.rest_client.pool_manager.clear()

    def _json(self, method: str, path: str, body: Body | None = None, **options: Any) -> Json:  # noqa: ANN401
        answer = self.request(method, path, body, **options)
        try:
            parsed: Json = json.loads(answer.read())
        except (urllib3.exceptions.HTTPError, OSError, json.JSONDecodeError) as error:
            raise ApiUnreachable(f"{method} {path}: {error}") from error
        finally:
            answer.release_conn()
        return parsed

    def _served(self, version: str, kind: str) -> tuple[str, bool]:
        if kind not in self._kinds.get(version, {}):
            listed = self._json("GET", "/api/v1" if version == "v1" else f"/apis/{version}")
            self._kinds[version] = {
                r["kind"]: (r["name"], r["namespaced"]) for r in listed["resources"] if "/" not in r["name"]
            }
        if kind not in self._kinds[version]:
            raise ApiError(404, "NotFound", f"the server serves no kind {kind} in {version}")
        return self._kinds[version][kind]


class WatchStream:
    """One open watch: iterate over its raw events (`type`, `object`); `close` from any thread ends the iteration."""

    def __init__(self, resource: str, answer: urllib3.BaseHTTPResponse) -> None:
        self._resource, self._answer, self._closed = resource, answer, False

    def __iter__(self) -> Iterator[Json]:
        """Yield events until the server ends the stream.

        Raises:
            ApiUnreachable: the connection broke, fell silent or carried something that is not JSON.
        """
        buffered = b""
        try:
            for chunk in self._answer.stream(amt=65536):
                *lines, buffered = (buffered + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if not self._closed:
                raise ApiUnreachable(f"watch {self._resource}: {error}") from error
        finally:
            self._answer.close()

    def close(self) -> None:
        """Cut the connection; a reader blocked on it wakes up."""
        self._closed = True
        with suppress(ValueError, OSError, RuntimeError):
            self._answer.shutdown()


def path_of(
    resource: str, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """Return the URL path of a collection, an object or a subresource."""
    *group, plural = resource.split("/")
    parts = ["/apis", *group] if group else ["/api/v1"]
    parts += ["namespaces", namespace] if namespace else []
    return "/".join([*parts, plural, *(part for part in (name, subresource) if part)])
