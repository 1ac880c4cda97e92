/** Starts and removes a background process in a sandbox of root, whoever runs this, and prints what came of it. */
import { Sandboxes } from "../../src/index.js";

const [root = "", prefix = ""] = process.argv.slice(2);
const sandboxes = new Sandboxes({ root, prefix });
const box = await sandboxes.create("rooted", { image: "debian:bookworm-slim", user: "root" });
const { id } = await box.processes.start("id -u; exit 3");
const { exitCode } = await box.processes.wait(id);
let output = "";
for await (const { chunk } of box.processes.logs(id)) output += chunk;
const removed = await box.processes.remove(id);
const left = await box.processes.list();
await sandboxes.removeAll();
process.stdout.write(JSON.stringify({ uid: process.getuid?.(), exitCode, output, removed, left }));
