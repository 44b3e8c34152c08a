"""What the operator is told about the gateway: by `doctor`, and on the page."""

from gateway.app.database_file import backup_state, trouble_of
from gateway.config.settings import Settings
from gateway.operations.table import JsonObject


def facts(report: JsonObject, platform: str, files: str, backups: str) -> list[tuple[str, str]]:
    """The parts of the gateway, in a few words each."""
    models, ignored = report.get("models", {}), report.get("ignored", [])
    said = [
        ("Platform", platform),
        ("Dialect", report["dialect"] or "not known"),
        ("Brain", _brain(report["brain"])),
        ("Files", files),
        ("Backups", backups),
        ("Logins", report.get("logins", "")),
        ("Embedding", _embedding(models["embedding"]) if "embedding" in models else ""),
        ("Language", _language(models["language"]) if "language" in models else ""),
        ("Ignored", _ignored(ignored) if ignored else ""),
        ("Writes", "none: BRAINS_READ_ONLY is set" if report.get("read_only") else ""),
        *(("Doubtful", sentence) for sentence in report.get("doubtful", ())),
    ]
    return [(name, words) for name, words in said if words]


def problems_of_file(settings: Settings, *, thorough: bool = False) -> list[JsonObject]:
    """The problems of the embedded brain's file, and of its backups."""
    found, (_, overdue) = trouble_of(settings, thorough=thorough), backup_state(settings)
    problems = [] if found is None else [(found.message, found.remedy)]
    if overdue is not None:
        problems.append((overdue, "Start the gateway, or look in its log for backup.failed."))
    return [{"code": "upstream_unavailable", "message": said, "remedy": remedy} for said, remedy in problems]


def problems_of_models(models: JsonObject) -> list[JsonObject]:
    """The problems of models that do not work."""
    embedding, language = models.get("embedding", {}), models.get("language", {})
    problems = []
    if embedding.get("state") == "failing":
        beside = embedding.get("meanwhile", {}).get("state") in ("ready", "building")
        found = "by their words and by a smaller model" if beside else "by their words alone"
        said = f"The embedding model {embedding['name']} {embedding['error']}; notes are found {found}."
        remedy = "Check BRAINS_EMBED_URL, BRAINS_EMBED_MODEL and BRAINS_EMBED_KEY."
        problems.append((said, remedy * (embedding["source"] == "endpoint")))
    if language.get("state") == "failing":
        said = f"The language model {language['name']} does not work: {language['error']}. Answers are made by rule."
        problems.append((said, "Check BRAINS_LLM_URL, BRAINS_LLM_MODEL and BRAINS_LLM_KEY."))
    return [{"code": "upstream_unavailable", "message": said, "remedy": remedy} for said, remedy in problems]


def _brain(brain: JsonObject | None) -> str:
    if brain is None:
        return "none"
    hint = "; set BRAINS_DEFAULT_BRAIN to keep to one" if "first of" in brain["why"] else ""
    name = f"{brain['slug']}, {brain['id']}" if "slug" in brain else brain["id"]
    return f"{name} ({brain['why']}{hint})"


def _ignored(settings: list[str]) -> str:
    """The settings that have no effect."""
    are = "is" if len(settings) == 1 else "are"
    return f"{' and '.join(settings)} {are} for the embedded brain alone, and a platform is set"


def _language(model: JsonObject) -> str:
    if model["state"] == "off":
        return "no model: answers are made by rule; BRAINS_LLM_URL sets one"
    works = {"ready": "works", "failing": "failing"}.get(model["state"], "not asked yet")
    return f"{model['name']}, by BRAINS_LLM_URL, {works}"


def _embedding(model: JsonObject) -> str:
    if model["state"] == "off":
        return "off: notes are found by their words alone"
    source = "offline" if model["source"] == "offline" else "by BRAINS_EMBED_URL"
    done = f"{model['embedded']:,} of {model['chunks']:,} chunks"
    done += f", {model['refused']:,} refused" if "refused" in model else ""
    state = {"failing": ", failing", "building": ", more to come"}.get(model["state"], "")
    meanwhile = model.get("meanwhile", {}) if state else {}
    until_then = f"; until then {_embedding(meanwhile)}" if meanwhile else ""
    return f"{model['name']}, {source}, {done}{state}{until_then}"
