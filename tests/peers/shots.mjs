import { chromium } from "playwright-core";
const [url, out] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless","--no-sandbox","--disable-gpu","--disable-background-networking"] });
const only = process.argv[4]?.split(",");
const list = await (async () => { const c = await browser.newContext(); const p = await c.newPage(); await p.goto(url + "/ui/brains/main/notes"); const hrefs = await p.$$eval(".notes h2 a", as => as.map(a => a.getAttribute("href"))); await c.close(); return hrefs; })();
const deploy = list.find(h => h.includes("deploy"));
const views = { brains: "/", notes: "/ui/brains/main/notes", search: "/ui/brains/main/notes?q=train&days=7", empty: "/ui/brains/garden/notes", note: deploy, hostile: list.find(h=>h.includes("script")), edit: deploy.replace("/note?", "/edit?"), ask: "/ui/brains/main/ask", calls: "/ui/calls?all=1", status: "/ui/status", connect: "/ui/connect", error: "/ui/nope" };
for (const scheme of ["light","dark"]) for (const width of [1280, 390]) {
  const c = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 800 } });
  const p = await c.newPage();
  p.on("console", m => console.log(scheme, width, m.type(), m.text()));
  p.on("pageerror", e => console.log("pageerror", e));
  for (const [name, path] of Object.entries(views)) {
    if (only && !only.includes(name)) continue;
    await p.goto(url + path);
    if (name === "ask") { await p.fill("#question", "When does the night train leave?"); await p.click(".ask button"); await p.waitForSelector("[data-answer][aria-busy=false]"); await p.waitForSelector(".sources li"); }
    const over = await p.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    if (over) console.log("overflows", name, width);
    await p.screenshot({ path: `${out}/${name}-${scheme}-${width}.png`, fullPage: true });
  }
  if (!only || only.includes("difference")) { await p.goto(url + deploy); await p.click("text=What changed"); await p.screenshot({ path: `${out}/difference-${scheme}-${width}.png`, fullPage: true }); }
  await c.close();
}
await browser.close();
