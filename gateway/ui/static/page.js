// What the page does beyond forms and links. Without it everything can still be read, edited, deleted and undone.

const PAUSE_MS = 200;

/** Replaces an element by the one of the same id in the page at this address. */
async function swap(id, address, signal) {
  const response = await fetch(address, { signal, headers: { accept: "text/html" } });
  const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById(id);
  if (!found) {
    // Logged out, or an error: the page itself says which.
    if (response.redirected) location.assign(response.url);
    return;
  }
  document.getElementById(id).replaceChildren(...found.childNodes);
}

/** Search as you type: the form is sent a moment after the last key. */
function searchAsYouType(form) {
  const id = form.dataset.swap;
  let timer, under_way;
  const search = async () => {
    under_way?.abort();
    under_way = new AbortController();
    const mine = under_way;
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = `${form.getAttribute("action")}?${query}`;
    const results = document.getElementById(id);
    results.setAttribute("aria-busy", "true");
    try {
      await swap(id, address, mine.signal);
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") form.submit();
    } finally {
      if (mine === under_way) results.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
}

/** Looks again and again, while somebody looks at it. */
function keepLive(region) {
  const look = async () => {
    if (!document.hidden && !region.contains(document.activeElement)) {
      await swap(region.id, location.href).catch(() => {});
    }
    setTimeout(look, Number(region.dataset.live));
  };
  setTimeout(look, Number(region.dataset.live));
}

async function* linesOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

function sourceItem(source) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const preview = document.createElement("span");
  link.href = source.href;
  link.textContent = source.title;
  preview.className = "dim";
  preview.textContent = source.preview;
  item.append(link, " ", preview);
  return item;
}

/** Shows an answer while it comes. Everything of it is put there as text. */
function streamAnswers(form) {
  const section = document.getElementById("answer");
  const part = (name) => section.querySelector(`[data-${name}]`);
  const [answer, note, sources, title] = ["answer", "note", "sources", "sources-title"].map(part);
  const show = (said) => {
    if (said.delta) answer.append(said.delta);
    if (said.error) note.textContent = said.error;
    if (said.sources) {
      sources.replaceChildren(...said.sources.map(sourceItem));
      title.hidden = said.sources.length === 0;
      title.textContent = said.cited ? "From" : "Found, but not cited";
      note.textContent = said.note ?? "";
    }
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    section.hidden = false;
    answer.replaceChildren();
    sources.replaceChildren();
    note.textContent = "";
    title.hidden = true;
    answer.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(form.getAttribute("action"), {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        headers: { accept: "application/x-ndjson" },
      });
      if (!response.headers.get("content-type")?.startsWith("application/x-ndjson")) {
        throw new Error("no stream");
      }
      for await (const said of linesOf(response.body)) show(said);
    } catch {
      note.textContent = "The answer did not come. Load the page again, and repeat the question.";
    } finally {
      answer.setAttribute("aria-busy", "false");
      button.disabled = false;
    }
  });
  form.querySelector("textarea").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
}

function offerCopy(button) {
  const text = button.parentElement.querySelector("code");
  const told = document.querySelector("[data-copied]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      told.textContent = "Copied.";
    } catch {
      // Not allowed here: mark it, for a copy by keyboard.
      getSelection().selectAllChildren(text);
      told.textContent = "Selected. Copy it with the keyboard.";
    }
    button.firstChild.textContent = told.textContent;
    setTimeout(() => (button.firstChild.textContent = "Copy "), 2000);
  });
}

document.querySelectorAll("[data-swap]").forEach(searchAsYouType);
document.querySelectorAll("[data-live]").forEach(keepLive);
document.querySelectorAll("[data-ask]").forEach(streamAnswers);
document.querySelectorAll("[data-copy]").forEach(offerCopy);
