// The tour of real_client_tour.py, by the TypeScript SDK: node tour.mjs PACKAGES URL CLIENT PREFIX...
// CLIENT is v1, v2-legacy or v2-auto. Prints one line of JSON: what each step gave.

import { createRequire } from "node:module";

const [packages, url, kind, ...prefixes] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);

const NOTIFICATIONS = {
  "notifications/message": "LoggingMessageNotificationSchema",
  "notifications/resources/updated": "ResourceUpdatedNotificationSchema",
  "notifications/tools/list_changed": "ToolListChangedNotificationSchema",
  "notifications/prompts/list_changed": "PromptListChangedNotificationSchema",
  "notifications/resources/list_changed": "ResourceListChangedNotificationSchema",
};
const REQUESTS = {
  "sampling/createMessage": "CreateMessageRequestSchema",
  "elicitation/create": "ElicitRequestSchema",
  "roots/list": "ListRootsRequestSchema",
};
const ANSWERS = {
  "sampling/createMessage": () => ({
    role: "assistant",
    content: { type: "text", text: "not much" },
    model: "model-1",
    stopReason: "endTurn",
  }),
  "elicitation/create": (params) =>
    params.mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ada" } },
  "roots/list": () => ({ roots: [{ uri: "file:///home/me", name: "home" }] }),
};

const heard = [];
const waiting = [];

function hear(notification) {
  heard.push(notification);
  for (const wake of waiting.splice(0)) wake();
}

async function until(what, condition) {
  const deadline = Date.now() + 20000;
  while (true) {
    const found = heard.find(condition);
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`nothing heard: ${what}`);
    await new Promise((resolve) => {
      waiting.push(resolve);
      setTimeout(resolve, 200);
    });
  }
}

function newClient() {
  const info = { name: `typescript-${kind}`, version: "1" };
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
  if (kind === "v1") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const types = require("@modelcontextprotocol/sdk/types.js");
    const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client(info, { capabilities });
    for (const [method, schema] of Object.entries(REQUESTS))
      client.setRequestHandler(types[schema], (request) => ANSWERS[method](request.params));
    for (const schema of Object.values(NOTIFICATIONS)) client.setNotificationHandler(types[schema], hear);
    return [client, new StreamableHTTPClientTransport(new URL(url))];
  }
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const mode = kind === "v2-auto" ? "auto" : "legacy";
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  for (const method of Object.keys(REQUESTS))
    client.setRequestHandler(method, (request) => ANSWERS[method](request.params));
  for (const method of Object.keys(NOTIFICATIONS)) client.setNotificationHandler(method, hear);
  return [client, new StreamableHTTPClientTransport(new URL(url))];
}

const [client, transport] = newClient();
await client.connect(transport);
const stateless = kind === "v2-auto";

async function call(name, args = {}, { meta, ...options } = {}) {
  const params = { name, arguments: args, ...(meta ? { _meta: meta } : {}) };
  const result = await (kind === "v1" ? client.callTool(params, undefined, options) : client.callTool(params, options));
  return result.content[0].text;
}

async function errorOf(work) {
  try {
    await work;
  } catch (error) {
    return [error.code, error.data];
  }
  return "no error";
}

async function updateOf(p, uri) {
  if (stateless) {
    const subscription = await client.listen({ resourceSubscriptions: [uri] });
    await new Promise((resolve) => setTimeout(resolve, 300));
    await call(`${p}_touch`);
    const update = await until("an update", (each) => each.params?.uri === uri);
    await subscription.close();
    return update.params.uri;
  }
  await client.subscribeResource({ uri });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await call(`${p}_touch`);
  const update = await until("an update", (each) => each.params?.uri === uri);
  await client.unsubscribeResource({ uri });
  return update.params.uri;
}

async function changesOf(p) {
  const kinds = ["prompts", "resources", "tools"];
  heard.length = 0;
  await call(`${p}_add`);
  for (const each of kinds) await until(each, (one) => one.method === `notifications/${each}/list_changed`);
  const { tools } = await client.listTools();
  return tools.some((tool) => tool.name === `${p}_late1`);
}

async function logsOf(p) {
  heard.length = 0;
  const meta = stateless ? { "io.modelcontextprotocol/logLevel": "debug" } : undefined;
  await call(`${p}_talk`, {}, { meta });
  await until("a log message", (each) => each.method === "notifications/message" && each.params.data === "oh no");
  return heard.filter((each) => each.method === "notifications/message").map((each) => each.params.data);
}

async function tour(p) {
  const live = `doc://${p}/live`;
  const steps = {};
  steps.echo = JSON.parse(await call(`${p}_echo`, { n: 1, "é": "日本" }));
  steps.read = (await client.readResource({ uri: live })).contents.map((each) => [each.uri, each.text]);
  steps.blob = (await client.readResource({ uri: `urn:${p}:x:1` })).contents[0].blob;
  steps.expanded = (await client.readResource({ uri: `doc://${p}/items/7` })).contents[0].text;
  const { messages } = await client.getPrompt({ name: `${p}_greet`, arguments: { name: "Ada" } });
  steps.prompt = [messages[0].content.text, messages[1].content.uri];
  const complete = async (ref) =>
    (await client.complete({ ref, argument: { name: "name", value: "x" } })).completion.values;
  steps.complete = [
    await complete({ type: "ref/prompt", name: `${p}_greet` }),
    await complete({ type: "ref/resource", uri: `doc://${p}/items/{id}` }),
  ];
  steps.sample = JSON.parse(await call(`${p}_sample`));
  steps.form = JSON.parse(await call(`${p}_form`));
  steps.login = await call(`${p}_login`);
  steps.roots = JSON.parse(await call(`${p}_roots`));
  steps.rounds = JSON.parse(await call(`${p}_rounds`));
  const progress = [];
  await call(`${p}_count`, {}, { onprogress: (each) => progress.push([each.progress, each.total, each.message]) });
  steps.progress = progress;
  steps.logs = await logsOf(p);
  steps.error = await errorOf(call(`${p}_broken`));
  steps.update = await updateOf(p, live);
  steps.changes = await changesOf(p);
  return steps;
}

const report = {};
const names = (await client.listTools()).tools.map((tool) => tool.name);
report.lists = {
  tools: names.filter((name) => name.endsWith("_echo")).sort(),
  prompts: (await client.listPrompts()).prompts.map((each) => each.name).sort(),
  resources: (await client.listResources()).resources.map((each) => each.uri).sort(),
  templates: (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate).sort(),
};
report.version = kind === "v1" ? transport.protocolVersion : client.getNegotiatedProtocolVersion();
if (!stateless) await client.setLoggingLevel("debug");
let everything;
if (stateless)
  everything = await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true });
for (const prefix of prefixes) report[prefix] = await tour(prefix);
if (everything !== undefined) await everything.close();
await client.close();
console.log(JSON.stringify(report));
process.exit(0);
