// Opens reports in Chromium, narrow and wide, light and dark, and in print, and fails on any problem for a reader:
// errors, requests, overflow, labels that overlap or are cut off, faint text, and numbers that are not those of the JSON.
//
// node check.mjs [--screenshots FOLDER] PAGE.html …
// A PAGE.json next to a page is compared with the JSON inside it. CHROMIUM names the browser; the default is the usual paths.

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const WIDTHS = [360, 1280];
const THEMES = ["light", "dark"];

const pages = process.argv.slice(2);
let screenshots = null;
if (pages[0] === "--screenshots") {
  [, screenshots] = pages.splice(0, 2);
  mkdirSync(screenshots, { recursive: true });
}
const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  (path) => path && existsSync(path),
);
if (!executablePath || pages.length === 0) {
  console.error(executablePath ? "give pages to look at" : "no Chromium was found; set CHROMIUM to its path");
  process.exit(2);
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
let failures = 0;
for (const file of pages) {
  for (const theme of THEMES) {
    for (const width of WIDTHS) {
      await look(file, theme, width);
    }
  }
}
await browser.close();
console.log(failures === 0 ? `${pages.length} pages look right` : `${failures} problems`);
process.exit(failures === 0 ? 0 : 1);

async function look(file, theme, width) {
  const name = `${basename(file, ".html")} ${theme} ${width}`;
  const fail = (problem) => {
    failures += 1;
    console.error(`${name}: ${problem}`);
  };
  const context = await browser.newContext({
    colorScheme: theme, viewport: { width, height: 900 }, permissions: ["clipboard-read", "clipboard-write"], acceptDownloads: true,
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => fail(`script error: ${error.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) fail(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    fail(`a dialog opened: ${dialog.message()}`);
    dialog.dismiss();
  });
  const address = pathToFileURL(resolve(file)).href;
  page.on("request", (request) => {
    if (request.url() !== address && !request.url().startsWith("data:")) fail(`requested ${request.url()}`);
  });
  await page.goto(address, { waitUntil: "load" });

  const shoot = async (what) => {
    if (!screenshots) return;
    const path = join(screenshots, `${name.replaceAll(" ", "-")}${what}.png`);
    await page.screenshot({ path, fullPage: true });
  };
  await shoot("");
  for (const problem of await page.evaluate(inspect)) fail(problem);
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  await shoot("-open");
  for (const problem of await page.evaluate(inspect)) fail(`with details open: ${problem}`);

  for (const problem of await page.evaluate(compare)) fail(problem);
  const beside = file.replace(/\.html$/, ".json");
  if (existsSync(beside)) {
    const inside = JSON.parse(await page.locator("#documents").textContent());
    if (!isDeepStrictEqual(inside, JSON.parse(readFileSync(beside, "utf8")))) fail(`the JSON inside differs from ${beside}`);
  }
  for (const problem of await takeAway(page)) fail(problem);
  if (theme === "dark" && width === WIDTHS.at(-1)) {
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = false)));
    await page.emulateMedia({ media: "print" });
    const paper = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    if (!/rgb\(25\d, 25\d, 25\d\)/.test(paper)) fail(`printed on ${paper} from a dark screen`);
    const path = screenshots ? join(screenshots, `${basename(file, ".html")}.pdf`) : undefined;
    await page.pdf({ path, format: "A4" });
  }
  await context.close();
}

// Copies every text and downloads every table, as a reader would.
async function takeAway(page) {
  const problems = [];
  for (const copy of await page.locator(".copy").all()) {
    const shown = await copy.locator("code").textContent();
    await page.evaluate(() => navigator.clipboard.writeText("nothing"));
    const clicked = await copy.locator("button").click({ timeout: 3000 }).then(() => true, () => false);
    if (!clicked) return [`the button beside "${shown.slice(0, 40)}" cannot be clicked`];
    const found = await page.waitForFunction(
      (expected) => navigator.clipboard.readText().then((text) => text === expected), shown, { timeout: 3000 },
    ).then(() => true, () => false);
    if (!found) problems.push(`"${shown.slice(0, 40)}" was not copied`);
    if ((await copy.locator("button").textContent()) !== "Copied") problems.push("a button does not say that it copied");
  }
  const links = await page.locator(".download a").all();
  // The rows of a folded table are in the file of the table above it.
  const tables = await page.locator("table:not(details.folded table)").count();
  if (links.length !== tables) problems.push(`${links.length} of ${tables} tables can be downloaded`);
  for (const [index, link] of links.entries()) {
    const name = await link.getAttribute("download");
    const address = await link.getAttribute("href");
    const text = Buffer.from(address.split("base64,")[1] ?? "", "base64").toString("utf8");
    // A browser asks its user before a page downloads more than ten files.
    if (index < 10) {
      const event = page.waitForEvent("download", { timeout: 20000 }).catch(() => null);
      await link.click();
      const download = await event;
      if (!download) return [...problems, `${name} cannot be downloaded`];
      if (download.suggestedFilename() !== name) problems.push(`a file is called ${download.suggestedFilename()}`);
      if (readFileSync(await download.path(), "utf8") !== text) problems.push(`${name} is not what its address contains`);
    }
    const lines = text.trimEnd().split("\n");
    const rows = await link.evaluate((link) => {
      const folded = link.parentElement.nextElementSibling?.matches("details.folded") ? link.parentElement.nextElementSibling : null;
      return link.parentElement.previousElementSibling.querySelectorAll("tr").length + (folded?.querySelectorAll("tbody tr").length ?? 0);
    });
    // A quoted name could contain line breaks, but no name here does.
    if (lines.length !== rows) problems.push(`${name} has ${lines.length} lines for ${rows} rows`);
  }
  return problems;
}

// Runs in the page: visible problems.
function inspect() {
  const problems = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) problems.push(`the page is ${root.scrollWidth} px wide in a window of ${window.innerWidth}`);
  for (const element of document.querySelectorAll("main *, header *, footer *")) {
    if (element.closest("svg, .scroll")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > window.innerWidth + 1 || box.left < -1)) {
      problems.push(`<${element.localName} class="${element.className}"> leaves the window: ${element.textContent.slice(0, 40)}`);
    }
  }

  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    if (!svg.getAttribute("aria-label") && !svg.closest("[role=img][aria-label]")) problems.push("a chart has no text alternative");
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    const scale = frame.width / svg.viewBox.baseVal.width;
    texts.forEach((text, one) => {
      const [box, said] = [boxes[one], `"${text.textContent}"`];
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 7.5) problems.push(`${said} is ${size.toFixed(1)} px high`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        problems.push(`${said} is cut off by its chart`);
      }
      for (let other = one + 1; other < texts.length; other += 1) {
        const wide = Math.min(box.right, boxes[other].right) - Math.max(box.left, boxes[other].left);
        const high = Math.min(box.bottom, boxes[other].bottom) - Math.max(box.top, boxes[other].top);
        // Boxes have space above and below the letters.
        if (wide > 0.5 && high > 0.35 * Math.min(box.height, boxes[other].height)) {
          problems.push(`${said} overlaps "${texts[other].textContent}"`);
        }
      }
    });
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const light = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = getComputedStyle(root).backgroundColor;
  const faint = new Set();
  for (const element of document.querySelectorAll("h1, h2, p, dt, dd, th, td, li, a, summary, figcaption, b, span, text")) {
    const style = getComputedStyle(element);
    const colour = element.localName === "text" ? style.fill : style.color;
    if (contrast(colour, paper) < 4.5) faint.add(`<${element.localName}> in ${colour} on ${paper} is faint`);
  }
  for (const key of document.querySelectorAll(".keys i:not(.rest)")) {
    const { color } = getComputedStyle(key);
    if (contrast(color, paper) < 3) faint.add(`a line in ${color} on ${paper} is faint`);
  }
  problems.push(...faint);

  if (document.querySelectorAll("h1").length !== 1) problems.push("there is not one h1");
  const scripts = [...document.querySelectorAll("script")].map((script) => script.id);
  if (scripts.join() !== "documents,copy") problems.push(`a script came in: ${scripts}`);
  for (const image of document.querySelectorAll("img")) {
    if (!image.closest(".images") || !image.complete || image.naturalWidth === 0) problems.push("an image is out of place or broken");
  }
  for (const element of document.querySelectorAll("*")) {
    for (const { name } of element.attributes) if (name.startsWith("on")) problems.push(`an element has ${name}`);
  }
  return problems;
}

// Runs in the page: every number of every table equals that of the JSON, and its text is that number rounded.
function compare() {
  const problems = [];
  const documents = JSON.parse(document.getElementById("documents").textContent);
  const at = (pointer) =>
    pointer.split("/").slice(1).reduce((value, key) => value?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], documents);
  const numbers = [...document.querySelectorAll("data[value]")];
  if (numbers.length === 0 && documents.sections.some((section) => section.solve || section.score || section.simulate)) {
    problems.push("there are no numbers");
  }
  for (const number of numbers) {
    const [value, text] = [Number(number.value), number.textContent];
    if (at(number.dataset.at) !== value) problems.push(`${number.dataset.at} is ${at(number.dataset.at)}, the page has ${number.value}`);
    const plain = text.replace("±\u202f", "").replaceAll(",", "").replaceAll("−", "-");
    const percent = plain.endsWith("%");
    if (plain === "<0.1%") {
      if (!(value > 0 && value < 0.001)) problems.push(`${number.dataset.at}: "${text}" is not ${value}`);
      continue;
    }
    const [digits, exponent] = plain.replace("%", "").split("e");
    const unit = 10 ** (Number(exponent ?? 0) - (digits.split(".")[1] ?? "").length) / (percent ? 100 : 1);
    const shown = Number(plain.replace("%", "")) / (percent ? 100 : 1);
    // Shares are rounded so that they add up to 100%, which may take the next number up or down.
    const tolerance = percent ? 0.9999999 : 0.5000001;
    if (!(Math.abs(shown - value) <= tolerance * unit)) problems.push(`${number.dataset.at}: "${text}" is not ${value} rounded`);
  }
  if (/\b(NaN|undefined|Infinity|inf)\b/.test(document.querySelector("main").innerText)) problems.push("a number is none");
  return problems;
}
