"""Real answers held against contract/openapi.yaml."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import yaml
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]  # it ships no types

OPENAPI = Path(__file__).parents[3] / "contract" / "openapi.yaml"


class Specification:
    """The file, read once; `check` is what every client of these tests calls on every answer."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))
        self.seen: set[tuple[str, int]] = set()
        self._templates = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", template)), template) for template in self.document["paths"]
        ]

    def operations(self) -> dict[tuple[str, str], str]:
        """Method and path of every operation, with its id."""
        return {
            (method.upper(), template): operation["operationId"]
            for template, methods in self.document["paths"].items()
            for method, operation in methods.items()
            if method != "parameters"
        }

    def check(self, response: httpx.Response) -> None:
        """Assert that an answer is one the file describes; an unknown route can only be refused."""
        request = response.request
        template = next((t for pattern, t in self._templates if pattern.fullmatch(request.url.path)), None)
        operation = self.document["paths"].get(template, {}).get(request.method.lower())
        if operation is None:
            assert response.status_code in (401, 403, 404, 405), f"{request.method} {request.url.path} is not described"
            self._matches("Problem", response)
            return
        self.seen.add((operation["operationId"], response.status_code))
        described = self._resolved(self._described(operation, response.status_code))
        if "content" not in described or request.method == "HEAD":
            assert response.content == b""
            return
        media_type = response.headers["content-type"].partition(";")[0]
        assert media_type in described["content"], f"{operation['operationId']} answered {media_type}"
        if schema := described["content"][media_type].get("schema"):
            self.validate(schema, response.json())

    def validate(self, schema: dict[str, Any], value: object) -> None:
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole, format_checker=FormatChecker()).validate(value)

    def validate_event(self, event: dict[str, Any]) -> None:
        name = "".join(part.capitalize() for part in event["type"].split("_"))
        self.validate({"$ref": f"#/components/schemas/Ask{name}Event"}, event)

    def _described(self, operation: dict[str, Any], status: int) -> dict[str, Any]:
        responses = operation["responses"]
        if status < 400:
            assert str(status) in responses, f"{operation['operationId']} answered {status}"
        described: dict[str, Any] = responses.get(str(status)) or responses["default"]
        return described

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            node = self.document["components"]["responses"][name]
        return node

    def _matches(self, schema: str, response: httpx.Response) -> None:
        if response.request.method != "HEAD":
            assert response.headers["content-type"] == "application/problem+json"
            self.validate({"$ref": f"#/components/schemas/{schema}"}, json.loads(response.content))
