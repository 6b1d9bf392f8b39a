// Random conversations by the client of npm: node agui_client.mjs MODULES URL TOKEN COUNT SEED
// It refuses every stream that is not one of the protocol; prints a line of JSON at its end.
import { createRequire } from "node:module";

const [modules, url, token, count, seed] = process.argv.slice(2);
const { HttpAgent } = createRequire(modules + "/")("@ag-ui/client");
let state = Number(seed);
const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
const tools = [{ name: "pick", description: "picks", parameters: { type: "object" } }];
const ends = {};
let runs = 0;

while (runs < Number(count)) {
  const agent = new HttpAgent({
    url,
    threadId: `n${runs}`,
    headers: { Authorization: `Bearer ${token}` },
  });
  const say = (content) => agent.addMessage({ id: `u${runs}`, role: "user", content });
  say("go");
  let resume;
  for (let step = 0; step < 40; step++) {
    let outcome = { type: "error" };
    runs++;
    await agent.runAgent(
      { tools, ...(resume ? { resume } : {}) },
      { onRunFinishedEvent: ({ event }) => (outcome = event.outcome) },
    );
    resume = undefined;
    const pending = outcome.pendingToolCallIds ?? [];
    const kind = pending.length ? "pending" : outcome.type;
    ends[kind] = (ends[kind] ?? 0) + 1;
    if (pending.length && random() < 0.2) say("never mind");
    else if (pending.length)
      for (const id of pending)
        agent.addMessage({
          id: `t${id}`,
          role: "tool",
          toolCallId: id,
          content: "red",
          ...(random() < 0.3 ? { error: "refused" } : {}),
        });
    else if (outcome.type === "interrupt")
      resume = outcome.interrupts.map(({ id }) => ({
        interruptId: id,
        status: random() < 0.2 ? "cancelled" : "resolved",
        payload: { decision: random() < 0.5 ? "allow" : "deny" },
      }));
    else break;
  }
}
console.log(JSON.stringify({ runs, ends }));
