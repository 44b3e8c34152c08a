// Looks at the pages of the login: node login_pages.mjs ADDRESS USER PASSWORD [SHOTS]. Says in JSON what it saw.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [address, user, password, shots] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
const seen = { violations: [], overflows: [], papers: {} };

async function judge(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  seen.violations.push(...violations.map((one) => `${name}: ${one.id}: ${one.nodes[0].html.slice(0, 150)}`));
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.overflows.push(name);
  seen.papers[name] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

for (const [colorScheme, width] of [["light", 1280], ["dark", 390]]) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 700 } });
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  await page.goto(address.replace("response_type=code", "response_type=token"));
  await judge(page, `refused-${colorScheme}`);
  await page.goto(address);
  await page.fill("[name=user]", user);
  await page.fill("[name=password]", "not the password");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[role=alert]");
  await judge(page, `wrong-${colorScheme}`);
  await page.fill("[name=user]", user);
  await page.fill("[name=password]", password);
  await page.keyboard.press("Enter");
  await page.waitForSelector("button:text-is('Allow')");
  await judge(page, `consent-${colorScheme}`);
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(seen));
