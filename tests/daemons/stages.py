"""The memory stages: remember, extract, reflect and consolidate."""

import json
import posixpath
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.daemons.answers import Refused, read_json, text_of
from tests.daemons.notes import Note, path_problem, read_note, shown_time
from tests.daemons.state import State

ROLES = {"system", "user", "assistant", "tool"}
SNAKE = {
    "retryFeedback": "retry_feedback",
    "shouldRecordEpisode": "should_record_episode",
    "antiPattern": "anti_pattern",
}
STALE = timedelta(days=90)


def now_text() -> str:
    return shown_time(time.time(), "ms")


async def remember(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    body = await read_json(request, state.traits.caps.query, state.traits)
    note, scope = text_of(body, "note").strip(), text_of(body, "scope").strip()
    if not note:
        raise Refused(400, "note required")
    slug = text_of(body, "slug") or "note-" + re.sub(r"[^0-9a-z]", "", now_text().lower())
    if scope in {"", "global"}:
        path = posixpath.normpath(f"memory/global/{slug}.md")
    elif scope.startswith("project:"):
        project = scope.removeprefix("project:")
        if not project:
            raise Refused(400, "project slug required for project scope")
        if "/" in project:
            raise Refused(500, f"brain: invalid path: path segment contains slash: {project}")
        path = f"memory/project/{project}/{safe_name(slug + '.md')}"
    else:
        raise Refused(400, f"unknown scope: {scope}")
    if (reason := path_problem(path)) is not None or (state.traits.bad_slug == "refused" and "/" in slug):
        raise Refused(500, f"brain: invalid path: {reason or 'slug: ' + slug}")
    source, tags, moment = text_of(body, "source"), body.get("tags"), now_text()
    lines = ["---", 'name: "remembered"', *([f"source: {json.dumps(source)}"] if source else [])]
    lines += [f"created: {moment}", f"modified: {moment}"]
    if isinstance(tags, list) and tags:
        lines += ["tags:", *(f"  - {tag}" for tag in tags)]
    state.write(brain, path, "\n".join([*lines, "---", "", note, ""]).encode())
    return JSONResponse({"path": path, "slug": slug}, 201)


def safe_name(name: str) -> str:
    """The last part of a name with its odd letters replaced, so that two names may become one."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]", "_", [part for part in re.split(r"[\\/]", name) if part][-1])
    return f"note_{int(time.time() * 1000)}.md" if cleaned.startswith(".") else cleaned


def messages_of(body: dict[str, Any], lenient: bool) -> list[dict[str, str]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages required")
    for message in messages:
        if not isinstance(message, dict):
            raise Refused(400, "message must be an object")
        known = message.get("role") in ROLES or lenient
        if not known or not isinstance(message.get("content"), str):
            raise Refused(400, "message must include role and content")
    return messages


async def extract(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    traits, llm = state.traits, state.llm
    body = await read_json(request, traits.caps.messages, traits)
    messages, session = messages_of(body, traits.tolerates_roles), text_of(body, "sessionId")
    if traits.non_json_extract != 200 and (llm is None or llm.prose or llm.fails):
        raise Refused(traits.non_json_extract, "extract: invalid character 'o' looking for beginning of value")
    heard = llm is not None and not llm.prose and not llm.fails
    found = [spoken_memory(memory, body, session) for memory in llm.memories] if llm and heard else []
    # T gives up on extraction when the provider itself fails, before its rules are asked.
    if traits.rule_extracts and not (llm and llm.fails):
        found += preferences(messages, session, {memory["description"].lower() for memory in found})
    memories = [dressed_memory(memory, state) for memory in found]
    return JSONResponse({"memories": memories or (None if traits.null_lists else [])})


def spoken_memory(memory: dict[str, Any], body: dict[str, Any], session: str) -> dict[str, Any]:
    scope = body.get("scope") if body.get("scope") in {"project", "agent"} else "global"
    blank = dict.fromkeys(("filename", "name", "description"), "")
    full = {"action": "create", **blank, "type": "project", "content": "", "indexEntry": "", "scope": scope, **memory}
    if session:
        full.setdefault("sessionId", session)
    tags = dict.fromkeys([*memory.get("tags", []), *noun_tags(full["content"])])
    return {**full, "tags": list(tags)} if tags else full


def noun_tags(content: str) -> list[str]:
    dull = {"the", "this", "that", "these", "those", "when", "where", "what", "who", "why", "how", "user", "assistant"}
    nouns = [noun for noun in re.findall(r"\b[A-Z][a-zA-Z]{2,}\b", content) if noun.lower() not in dull]
    return list(dict.fromkeys(nouns))


def preferences(messages: list[dict[str, str]], session: str, known: set[str]) -> list[dict[str, Any]]:
    """What T finds by rule in "I prefer ..." sentences: two of them at most."""
    found: list[dict[str, Any]] = []
    for message in messages:
        whole, parts = " ".join(message["content"].split()), re.split(r"\n+|(?<=[.!?])\s+", message["content"])
        for sentence in [whole, *parts] if message["role"] == "user" else []:
            match = re.search(r"\bi (?:also )?(?:like|love|prefer|enjoy) ([^.!?]+)", sentence, re.IGNORECASE)
            summary = f"The user prefers {match.group(1).strip()}." if match else ""
            if not summary or summary.lower() in known:
                continue
            known.add(summary.lower())
            slug = "-".join(re.findall(r"[a-z][a-z-]{2,}", summary.lower())[:5])
            content = f"{summary}\n\nEvidence: {sentence.strip()}"
            memory = {
                "action": "create",
                "filename": "-".join(filter(None, ["user-preference", session, slug])) + ".md",
            }
            memory["name"] = "User Preference: " + slug.replace("-", " ").title()
            memory |= {"description": summary, "type": "user", "scope": "global", "content": content}
            memory["indexEntry"] = summary
            found.append(memory | ({"sessionId": session} if session else {}) | {"tags": noun_tags(content)})
    return found[:2]


def dressed_memory(memory: dict[str, Any], state: State) -> dict[str, Any]:
    if state.traits.extract_snake:
        return {("index_entry" if key == "indexEntry" else key): memory[key] for key in memory}
    if state.traits.extract_extra:
        return {"supersedes": "", "sessionId": "", "sessionDate": "", "observedOn": "", "tags": [], **memory}
    return memory


async def reflect(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    traits, llm = state.traits, state.llm
    body = await read_json(request, traits.caps.messages, traits)
    messages_of(body, traits.tolerates_roles)
    session = text_of(body, "sessionId") or f"session-{int(time.time()):x}"
    said = llm.reflection if llm is not None and not llm.prose else None
    if (llm is not None and llm.fails) or (said is None and not traits.reflects_unknown):
        return JSONResponse({"result": None})
    blank: dict[str, Any] = {"outcome": "unknown", "summary": "", "retryFeedback": "", "shouldRecordEpisode": False}
    blank |= {"openQuestions": [], "heuristics": []}
    result = {key: (said or {}).get(key, value) for key, value in blank.items()}
    if traits.reflect_writes:
        result["path"] = f"reflections/{safe_name(session + '.md')}"
        state.write(brain, result["path"], reflection_file(result, session).encode(), "reflect")
    else:
        del result["openQuestions"]
    if traits.reflect_snake:
        result = {SNAKE.get(key, key): value for key, value in result.items()}
    return JSONResponse({"result": result})


def reflection_file(result: dict[str, Any], session: str) -> str:
    moment, episode = now_text(), result["shouldRecordEpisode"]
    matter = ["---", "type: reflection", "scope: global", f"created: {moment}", f"modified: {moment}"]
    matter += ["source: reflection", f"session_id: {session}", f"should_record_episode: {str(episode).lower()}", "---"]
    body = ["", f"# Session {session}", "", f"**Outcome:** {result['outcome']}"]
    body += [f"**Record episode:** {'yes' if episode else 'no'}", ""]
    body += ["## Summary", "", result["summary"] or "_no summary_", ""]
    body += ["## Retry feedback", "", result["retryFeedback"] or "_none_", ""]
    if result["openQuestions"]:
        body += ["## Open questions", "", *(f"- {question}" for question in result["openQuestions"]), ""]
    return "\n".join([*matter, *body])


async def consolidate(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    traits = state.traits
    if request.headers.get("content-length", "0") != "0":
        try:
            await read_json(request, traits.caps.small, traits)
        except Refused as refused:
            # What is no JSON is let pass; what is too large is not.
            if "exceeds" in refused.detail:
                raise
    # An index tells of the notes as they were before.
    texts = index_texts(state, brain)
    stale = marked_stale(state, brain) if traits.consolidates == "ops" else []
    rewritten = [*stale, *(path for path, text in texts.items() if is_written(state, brain, path, text))]
    if traits.consolidates == "ops":
        ops = [{"kind": "rewrite", "path": path} for path in rewritten]
        return JSONResponse({"merged": 0, "deleted": 0, "promoted": 0, "ops": ops, "errors": []})
    report: dict[str, Any] = {"mode": "quick", "episodesReviewed": 0, "heuristicsUpdated": 0, "indexRebuilt": True}
    if traits.consolidates == "camel":
        return JSONResponse({**report, "durationSeconds": 0.001, "errors": []})
    pascal = {key[0].upper() + key[1:]: value for key, value in report.items()}
    return JSONResponse({**pascal, "Duration": 1_000_000, "Errors": None if traits.null_lists else []})


def notes_in(state: State, brain: str, folder: str) -> dict[str, Note]:
    """The notes in a folder and below it, newest first."""
    files = state.files(brain)
    notes = {
        path: read_note(content.decode("utf-8", "replace"))
        for path, (content, _) in files.items()
        if path.startswith(folder) and path.endswith(".md") and not path.endswith("/MEMORY.md")
    }
    return {
        path: notes[path] for path in sorted(notes, key=lambda path: (-observed(notes[path], files[path][1]), path))
    }


def is_stale(state: State, brain: str, path: str, note: Note) -> bool:
    return time.time() - observed(note, state.files(brain)[path][1]) >= STALE.total_seconds()


def marked_stale(state: State, brain: str) -> list[str]:
    """T marks notes of the global memory that are 90 days old."""
    changed = []
    for path, note in notes_in(state, brain, "memory/global/").items():
        if is_stale(state, brain, path, note) and "stale" not in note.tags:
            tags = ", ".join([*note.tags, "stale"])
            matter = {**note.matter, "tags": f"[{tags}]", "stale_since": now_text()}
            head = "\n".join(["---", *(f"{key}: {value}" for key, value in matter.items()), "---"])
            state.write(brain, path, f"{head}\n\n{note.body.strip()}\n".encode(), "consolidate")
            changed.append(path)
    return changed


def index_texts(state: State, brain: str) -> dict[str, bytes]:
    """The index files of the daemon."""
    folders = ["memory/global/"]
    if state.traits.index_of == "folders":
        parts = [path.split("/") for path in state.files(brain) if path.startswith("memory/project/")]
        folders += sorted({"/".join(part[:3]) + "/" for part in parts if len(part) > 3})
    return {f"{folder}MEMORY.md": index_text(state, brain, folder).encode() for folder in folders}


def is_written(state: State, brain: str, path: str, text: bytes) -> bool:
    """Whether that took anything."""
    if state.files(brain).get(path, (b"", 0.0))[0] == text:
        return False
    state.write(brain, path, text, "consolidate")
    return True


def index_text(state: State, brain: str, folder: str) -> str:
    lines = []
    for path, note in notes_in(state, brain, folder).items():
        name = path.removeprefix(folder)
        if state.traits.index_of == "tree":
            first = next((line.strip() for line in note.body.split("\n") if line.strip()), "memory note")
            stale = " [stale]" if is_stale(state, brain, path, note) else ""
            lines.append(f"- {name}: {note.matter.get('description') or first}{stale}\n")
        elif "/" not in name:
            told = note.matter.get("description") or note.matter.get("type") or "no description"
            lines.append(f"- [{note.matter.get('name') or name.removesuffix('.md')}]({name}) — {told}\n")
    return "".join(lines)


def observed(note: Note, fallback: float) -> float:
    for key in ("modified", "observed_on", "session_date", "created"):
        try:
            moment = datetime.fromisoformat(note.matter.get(key, ""))
        except ValueError:
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return fallback
