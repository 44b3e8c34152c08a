"""Metrics as Prometheus would take them in."""

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text
from prometheus_client.samples import Sample

OPEN = "application/openmetrics-text; version=1.0.0"


class Scrape:
    """One look at `/metrics`."""

    def __init__(self, url: str, accept: str = "text/plain", headers: dict[str, str] | None = None) -> None:
        answer = httpx.get(f"{url}/metrics", headers={"accept": accept, **(headers or {})}, trust_env=False, timeout=30)
        assert answer.status_code == 200, answer.text
        self.text, self.media_type = answer.text, answer.headers["content-type"]
        parse = open_metrics if accept == OPEN else plain_text
        self.families = {family.name: family for family in parse(answer.text)}
        self.samples: list[Sample] = [sample for family in self.families.values() for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """Of all that have these labels, whatever others they have. It must be there."""
        found = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert found, f"no {name} with {labels}"
        return sum(found)
