// This file is written by `yett connect opencode`. OpenCode loads it and runs its hooks around every tool. A hook that
// throws keeps the tool from running, so everything here throws unless yett has answered with a word that we know.
import { spawn } from "node:child_process"

const yett = "{{yett}}"
const config = "{{config}}"
const limit = "{{limit}}"
const most = 16 << 20

// ask runs yett once and gives its answer, an object.
function ask(event) {
  return new Promise((resolve, reject) => {
    const child = spawn(yett, ["hook", "opencode", "--config", config], { stdio: ["pipe", "pipe", "pipe"] })
    const out = []
    let size = 0
    let said = ""
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      reject(new Error("yett: no answer in time, refused"))
    }, limit)
    child.on("error", () => {
      clearTimeout(timer)
      reject(new Error("yett: cannot be started, refused"))
    })
    child.stdin.on("error", () => {})
    child.stderr.on("data", (d) => {
      if (said.length < 4096) said += d.toString()
    })
    child.stdout.on("data", (d) => {
      size += d.length
      if (size > most) child.kill("SIGKILL")
      else out.push(d)
    })
    child.on("close", (code) => {
      clearTimeout(timer)
      if (code !== 0) {
        reject(new Error(code === 2 && said.trim() ? said.trim() : "yett: no decision, refused"))
        return
      }
      try {
        const answer = JSON.parse(Buffer.concat(out).toString("utf8"))
        if (answer === null || typeof answer !== "object") throw new Error()
        resolve(answer)
      } catch {
        reject(new Error("yett: an answer that is not JSON, refused"))
      }
    })
    child.stdin.end(JSON.stringify(event))
  })
}

// replace puts the members of a whole new value into an object that OpenCode holds.
function replace(old, now) {
  for (const name of Object.keys(old)) delete old[name]
  Object.assign(old, now)
}

// withhold puts a text in the place of everything that the model would read.
function withhold(output, text) {
  let done = false
  if ("output" in output) {
    output.output = text
    done = true
  }
  if ("content" in output) {
    output.content = [{ type: "text", text }]
    done = true
  }
  delete output.structuredContent
  if (!done) throw new Error(text)
}

// read is what the model reads of an output.
function read(output) {
  const seen = {}
  for (const name of ["output", "content", "structuredContent"]) {
    if (output[name] !== undefined) seen[name] = output[name]
  }
  return seen
}

export const Yett = async ({ directory }) => ({
  "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
    const d = await ask({ event: "tool.execute.before", sessionID, callID, tool, args: output.args ?? {}, directory })
    if (d.effect !== "permit") throw new Error("yett: an unknown answer, refused")
    if (d.args !== undefined) replace(output.args, d.args)
  },
  "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
    const event = { event: "tool.execute.after", sessionID, callID, tool, args: args ?? {}, directory }
    const d = await ask({ ...event, output: read(output) })
    switch (d.effect) {
      case "pass":
        return
      case "replace":
        if (d.output === null || typeof d.output !== "object") throw new Error("yett: an unknown answer, withheld")
        Object.assign(output, d.output)
        return
      case "warn":
        if (typeof output.output === "string") output.output += "\n" + d.message
        if (Array.isArray(output.content)) output.content.push({ type: "text", text: String(d.message) })
        return
      case "withhold":
        withhold(output, String(d.message))
        return
    }
    throw new Error("yett: an unknown answer, withheld")
  },
})
