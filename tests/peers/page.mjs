// Drives the page in a real browser: node page.mjs URL URL_WITH_TOKEN TOKEN [SHOTS]. Says in JSON what it saw.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [url, tokenUrl, token, shots] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
const seen = { console: [], violations: [], overflows: [], steps: {} };
const notes = "/ui/brains/main/notes";
const note = "/ui/brains/main/note?path=memory/global/train.md";

async function tab(options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.console.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => seen.console.push(String(error)));
  return page;
}

const text = (page, selector) => page.locator(selector).innerText();

async function judge(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  seen.violations.push(...violations.map((one) => `${name}: ${one.id}: ${one.nodes[0].html.slice(0, 150)}`));
  // Neither the page nor a table on it is wider than its place.
  const wide = () => [document.documentElement, ...document.querySelectorAll(".table")].some((one) => one.scrollWidth > one.clientWidth);
  if (await page.evaluate(wide)) seen.overflows.push(name);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

async function ask(page) {
  await page.goto(url + "/ui/brains/main/ask");
  // How often the answer grows says whether it came in pieces.
  await page.evaluate(() => {
    globalThis.grown = 0;
    new MutationObserver((changes) => (globalThis.grown += changes.length)).observe(
      document.querySelector("[data-answer]"), { childList: true });
  });
  await page.fill("#question", "When does the night train leave?");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sources li a");
  await page.waitForSelector("[data-answer][aria-busy=false]");
}

const page = await tab();

// Search as you type.
await page.goto(url + notes);
await page.locator("#q").pressSequentially("night train");
await page.waitForFunction(() => document.querySelectorAll(".notes li").length === 1);
seen.steps.search = await text(page, ".notes h2");
seen.steps.searchAddress = new URL(page.url()).search;

// Edit, with somebody else in between.
const other = await tab();
for (const one of [page, other]) await one.goto(url + note.replace("/note?", "/edit?"));
const change = async (one, to) => {
  const before = await one.inputValue("#text");
  await one.fill("#text", before.replace(/22:\d\d/, to));
  await one.click("button:text-is('Save')");
};
await change(other, "22:20");
await other.waitForSelector(".done");
seen.steps.edited = await text(other, ".text");
await change(page, "22:30");
await page.waitForSelector("text=This note was changed while you edited it.");
seen.steps.conflict = [await page.inputValue("#text"), await text(page, ".plain")];
await judge(page, "conflict");
await change(page, "22:40");
await page.waitForSelector(".done");
seen.steps.solved = await text(page, ".text");

// Delete and undo.
await page.click("button:text-is('Delete')");
await page.waitForSelector("text=This note is deleted");
await judge(page, "removed");
await page.click("button:text-is('Undo')");
await page.waitForSelector("text=Brought back.");
seen.steps.restored = await text(page, ".text");

// An answer that streams, and a citation that leads to its source.
await ask(page);
seen.steps.answer = await text(page, "[data-answer]");
seen.steps.grown = await page.evaluate(() => globalThis.grown);
await page.click(".sources li a");
await page.waitForSelector("article.note");
seen.steps.source = new URL(page.url()).searchParams.get("path");

// Calls show up while somebody looks.
await page.goto(url + "/ui/calls");
await fetch(url + "/mcp", {
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call",
    params: { name: "memory_recall", arguments: { query: "x" } } }),
});
await page.waitForSelector("td:has-text('memory_recall')");

// Copying.
await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
await page.goto(url + "/ui/connect");
await page.click("[data-copy] >> nth=0");
await page.waitForSelector("text=Copied.");
seen.steps.copied = await page.evaluate(() => navigator.clipboard.readText());

// What a note says does not run, and a picture of it is not fetched.
await page.goto(url + "/ui/brains/main/note?path=memory/global/hostile.md");
seen.steps.hostile = await page.evaluate(() => [globalThis.ran ?? "nothing ran", document.images.length]);

// Logging in.
await page.goto(tokenUrl + notes);
await judge(page, "login");
await page.fill("#token", token);
await page.keyboard.press("Enter");
await page.waitForSelector("h1:text-is('Brains')");
seen.steps.cookie = await page.evaluate(() => document.cookie);
await page.click("button:text-is('Log out')");
await page.waitForSelector("h1:text-is('Log in')");

// Without scripts.
const plain = await tab({ javaScriptEnabled: false });
await plain.goto(url + notes);
await plain.fill("#q", "night train");
await plain.keyboard.press("Enter");
await plain.click(".notes h2 a");
await plain.click("a:text-is('Edit')");
await change(plain, "22:50");
await plain.waitForSelector(".done");
seen.steps.withoutScripts = await text(plain, ".text");

// Every view, in both colours, wide and narrow.
const views = { brains: "/", notes, found: `${notes}?q=train&days=7`, empty: "/ui/brains/empty/notes", note,
  edit: note.replace("/note?", "/edit?"), calls: "/ui/calls?all=1", status: "/ui/status", connect: "/ui/connect" };
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    const judged = await tab({ colorScheme, viewport: { width, height: 800 } });
    const name = (view) => `${view}-${colorScheme}-${width}`;
    for (const [view, address] of Object.entries(views)) {
      await judged.goto(url + address);
      await judged.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
      await judge(judged, name(view));
    }
    await judged.goto(url + note);
    await judged.click("text=What changed >> nth=0");
    await judge(judged, name("difference"));
    await ask(judged);
    await judge(judged, name("ask"));
    await judged.context().close();
  }
}
await browser.close();
process.stdout.write(JSON.stringify(seen));
