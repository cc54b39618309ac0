// Drives a real browser over the console: node browser.mjs BASE LINK CLOCK. It ends with "all done", or with status 1 and
// what was wrong.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";

const require = createRequire(process.env.YETT_NODE_MODULES.replace(/\/?$/, "/"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [base, link, clock] = process.argv.slice(2);
const shots = process.env.YETT_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const password = "correct horse battery";
const faults = [];
let checks = 0;

function expect(ok, about) {
  checks++;
  if (!ok) {
    faults.push(about);
    console.log("FAULT " + about);
  }
}

// watch collects everything that the browser complains about.
function watch(page, about) {
  page.on("console", (m) => {
    if (["error", "warning"].includes(m.type()) && !/status of (403|404|409|422)/.test(m.text())) faults.push(`${about}: ${m.text()}`);
  });
  page.on("pageerror", (e) => faults.push(`${about}: ${e}`));
  page.on("requestfailed", (r) => { // a page that is left in the middle gives up what it still wanted
    if (r.failure().errorText !== "net::ERR_ABORTED") faults.push(`${about}: ${r.url()} failed: ${r.failure().errorText}`);
  });
}

async function look(page, about) {
  await page.evaluate(axe); // the debugger's own way in: the page's policy would not let a script tag in
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const v of violations) expect(false, `${about}: axe ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html + " " + n.failureSummary).join(" | ")}`);
  expect(passes.length > 10, `${about}: axe ran ${passes.length} rules`);
  await fits(page, about);
  console.log(`${about}: axe found ${violations.length} violations, ${passes.length} rules passed`);
}

async function fits(page, about) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(wide <= window, `${about}: ${wide} pixels wide in a window of ${window}`);
  if (shots) await page.screenshot({ path: `${shots}/${about.replace(/[^a-z0-9]+/g, "-")}.png`, fullPage: true });
}

// ask lets an agent ask for a call that waits, and gives the id of the decision.
async function ask(args) {
  return (await fetch(clock + "?ask=" + encodeURIComponent(JSON.stringify(args)))).text();
}

const browser = await chromium.launch({ executablePath: process.env.YETT_CHROMIUM, args: ["--no-sandbox"] });
console.log(`Chromium ${browser.version()}`);

async function withPage(about, options, steps) {
  const context = await browser.newContext({ baseURL: base, ...options });
  context.setDefaultTimeout(15000);
  const page = await context.newPage();
  watch(page, about);
  await steps(page, context);
  await context.close();
}

async function signIn(page) {
  await page.goto("/");
  expect(new URL(page.url()).pathname === "/signin", `sent to ${page.url()}`);
  await page.getByLabel("Name", { exact: true }).fill("ada");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/keys");
}

// The first operator signs up with the keyboard alone.
await withPage("sign up", { viewport: { width: 1280, height: 800 } }, async (page, context) => {
  await page.goto("/signin");
  await look(page, "sign-in without an operator");
  await page.goto(link);
  await look(page, "sign up");
  await page.keyboard.type("ada");
  await page.keyboard.press("Tab");
  await page.keyboard.type(password);
  await page.keyboard.press("Tab");
  await page.keyboard.type(password);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/keys");
  await look(page, "empty list");
  const [cookie] = (await context.cookies()).filter((c) => c.name === "__Host-yett");
  expect(cookie && cookie.secure && cookie.httpOnly && cookie.sameSite === "Strict", `the cookie is ${JSON.stringify(cookie)}`);
  console.log(`cookie kept on ${base}: ${cookie && cookie.name}, secure ${cookie && cookie.secure}`);
  await page.goto(link);
  expect(await page.getByText("operator already").isVisible(), "the link works twice");
});

// The same over the other name of this machine.
await withPage("localhost", { baseURL: base.replace("127.0.0.1", "localhost") }, async (page, context) => {
  await signIn(page);
  const kept = (await context.cookies()).some((c) => c.name === "__Host-yett");
  expect(kept, "the cookie is not kept on localhost");
  console.log(`cookie kept on localhost: ${kept}`);
});

// Something on the way to the lists that takes much room, and text that plays tricks.
const hostile = { environment: "prod\u202egnp.exe", note: "<b>bold?</b> " + "very-long-word-".repeat(12), agents: "billing-*\nops/**" };

const devices = [
  ["desktop light", { viewport: { width: 1280, height: 800 }, colorScheme: "light" }],
  ["desktop dark", { viewport: { width: 1280, height: 800 }, colorScheme: "dark" }],
  ["phone light", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, colorScheme: "light" }],
  ["phone dark", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, colorScheme: "dark" }],
];
for (const [about, options] of devices) {
  const name = "key of " + about;
  await withPage(about, options, async (page, context) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
    await page.goto("/signin");
    await look(page, about + ": sign-in");
    await signIn(page);

    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Make the key" }).click();
    const value = await page.getByLabel("Value").inputValue();
    expect(/^yett_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/.test(value), "no value is shown");
    expect(!page.url().includes(value), "the value is in the address");
    await look(page, about + ": new key");
    let asked = "";
    page.once("dialog", (d) => { asked = d.message(); d.dismiss(); });
    await page.getByRole("link", { name: "I have the value" }).click();
    expect(asked.includes("not copied"), "leaving an uncopied value asks nothing");
    expect(await page.getByLabel("Value").isVisible(), "the page was left all the same");
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied.").waitFor();
    expect((await page.evaluate(() => navigator.clipboard.readText())) === value, "the clipboard has something else");
    await page.getByRole("link", { name: "I have the value" }).click();
    await page.waitForURL("**/keys");
    expect(!(await page.content()).includes(value), "the list shows the value");
    await page.goBack().catch(() => {});
    expect(!(await page.content()).includes(value) && (await page.locator("#value").evaluateAll((f) => f.every((e) => e.value === ""))), "going back shows the value again");

    await page.goto("/keys");
    await page.getByLabel("Name", { exact: true }).fill(name + ", with everything");
    await page.getByText("More settings").click();
    await page.locator("#preset-auditor").check();
    await page.getByLabel("Environment").fill(hostile.environment);
    await page.getByLabel("Note", { exact: true }).fill(hostile.note);
    await page.getByLabel("Agents it acts for").fill(hostile.agents);
    await page.getByLabel("Last day").fill("2027-12-31");
    await page.locator("#scope-kill").check();
    await look(page, about + ": all settings");
    await page.getByRole("button", { name: "Make the key" }).click();
    expect(await page.getByRole("alert").isVisible(), "a contradiction is accepted");
    await look(page, about + ": refused");
    expect((await page.getByLabel("Note", { exact: true }).inputValue()) === hostile.note, "the note has to be typed again");
    await page.locator("#scope-kill").uncheck();
    await fetch(clock + "?by=11m");
    await page.getByRole("button", { name: "Make the key" }).click();
    await look(page, about + ": password again");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Go on" }).click();
    expect(await page.getByLabel("Value").isVisible(), "no value after the password was given again");
    page.once("dialog", (d) => d.accept());
    await page.getByRole("link", { name: "I have the value" }).click();
    await page.waitForURL("**/keys");
    await look(page, about + ": list");
    expect(await page.getByText("⟨U+202E⟩").first().isVisible(), "what cannot be seen is not shown");

    await page.getByRole("link", { name: "Roll " + name, exact: true }).click();
    await look(page, about + ": roll");
    await page.getByRole("button", { name: "Roll the key" }).click();
    expect(await page.getByText("works until").isVisible(), "no grace time");
    await look(page, about + ": rolled");
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("link", { name: "I have the value" }).click();
    await page.waitForURL("**/keys");
    await page.getByRole("link", { name: "Revoke " + name, exact: true }).first().click();
    await look(page, about + ": revoke");
    await page.getByRole("button", { name: "Revoke now" }).click();
    await page.waitForURL("**/keys");
    await page.getByRole("link", { name: "Revoke " + name, exact: true }).first().click();
    await page.getByRole("button", { name: "Revoke now" }).click();
    await page.waitForURL("**/keys");
    expect((await page.getByRole("row").filter({ hasText: name }).filter({ hasText: "revoked" }).count()) === 2, "the two keys are not shown as revoked");
    await look(page, about + ": list with tombstones");
    await page.goto("/activity");
    await look(page, about + ": not yet");

    await page.getByRole("link", { name: "Approvals", exact: true }).click();
    await look(page, about + ": no approvals");
    const decision = await ask({ about, amount: 120.5, note: "<b>bold?</b>\u202egnp.exe " + "very-long-word-".repeat(12), deep: [[{ a: null }]] });
    await page.reload();
    expect((await page.title()).startsWith("Approvals (1)"), "the title does not count");
    await look(page, about + ": approvals");
    await page.getByRole("link", { name: "payments/refund" }).click();
    await page.waitForURL("**/approvals/" + decision);
    expect(await page.getByText("⟨U+202E⟩").first().isVisible(), "what cannot be seen in a call is not shown");
    await look(page, about + ": approval");
    await page.getByLabel("Reason to approve").fill("order checked");
    await page.getByRole("button", { name: "Approve this call" }).click();
    await page.getByText("This call is approved").waitFor();
    await look(page, about + ": approved");
    await page.goto("/approvals/" + (await ask({ about, second: true })));
    await page.getByLabel("Reason to deny").fill("wrong customer");
    await page.getByRole("button", { name: "Deny this call" }).click();
    await page.getByText("This call is denied").waitFor();
    await look(page, about + ": denied");

    await page.getByRole("link", { name: "Plugins", exact: true }).click();
    await look(page, about + ": plugins");
    await page.getByRole("link", { name: "Resume siem" }).click();
    await page.getByLabel("Leave out record 77").check();
    await look(page, about + ": resume");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.waitForURL("**/plugins");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/signin");
  });
}

// A link in a message: the browser comes from another site and sends no cookie, signs in, and is where the link led. Somebody
// who is signed in already goes on without a password.
await withPage("deep link", { viewport: { width: 360, height: 740 }, isMobile: true }, async (page) => {
  const follow = async (path) => {
    await page.goto(clock.replace("127.0.0.1", "localhost") + "/?by=0s");
    await Promise.all([page.waitForURL(base + "/**"), page.evaluate((to) => { location.href = to; }, base + path)]);
  };
  const path = "/approvals/" + (await ask({ link: 1 }));
  await follow(path);
  expect(page.url().startsWith(base + "/signin?next="), `a link without a session leads to ${page.url()}`);
  await look(page, "sign-in from a link");
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**" + path);
  expect(await page.getByRole("button", { name: "Approve this call" }).isVisible(), "the link does not lead to the call");
  await follow(path);
  expect(page.url().startsWith(base + "/signin?next="), "a Strict cookie came from another site");
  await page.getByRole("link", { name: "go on to the call" }).click();
  await page.waitForURL("**" + path);
  await page.getByRole("button", { name: "Deny this call" }).click();
  await page.getByText("This call is denied").waitFor();
});

// All of it with the keyboard alone: what has the focus is always seen, and in the order of the page.
await withPage("keyboard", { viewport: { width: 1280, height: 800 } }, async (page) => {
  await signIn(page);
  await page.goto("/keys");
  await page.keyboard.press("Tab");
  expect(await page.getByText("Skip to the content").isVisible(), "no skip link at the first Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await page.getByLabel("Value").waitFor();
  const unseen = await page.evaluate(() => [...document.querySelectorAll("a, button, input")].filter((e) => {
    e.focus();
    return document.activeElement === e && getComputedStyle(e).outlineStyle === "none";
  }).length);
  expect(unseen === 0, `${unseen} things that show no focus`);
});

// And without JavaScript.
await withPage("no script", { javaScriptEnabled: false, viewport: { width: 360, height: 740 } }, async (page) => {
  await signIn(page);
  await page.getByLabel("Name", { exact: true }).fill("without script");
  await page.getByRole("button", { name: "Make the key" }).click();
  expect((await page.getByLabel("Value").inputValue()).startsWith("yett_"), "no value without script");
  expect(!(await page.getByRole("button", { name: "Copy" }).isVisible()), "a button that does nothing");
  await page.getByRole("link", { name: "I have the value" }).click();
  await page.getByRole("link", { name: "Revoke without script" }).click();
  await page.getByRole("button", { name: "Revoke now" }).click();
  await page.waitForURL("**/keys");
  expect(await page.getByRole("row").filter({ hasText: "without script" }).filter({ hasText: "revoked" }).isVisible(), "not revoked without script");
});

await browser.close();
console.log(`${checks} checks, ${faults.length} faults`);
for (const f of faults) console.log("FAULT " + f);
if (faults.length > 0) process.exit(1);
console.log("all done");
