/** Starts a background process from a process of its own, says its id, and waits to be killed. */
import { Sandboxes } from "../../src/index.js";

const [root = "", prefix = "", box = "", command = ""] = process.argv.slice(2);
const sandbox = await new Sandboxes({ root, prefix }).get(box);
const { id } = await sandbox.processes.start(command, { name: "child" });
console.log(id);
setInterval(() => {}, 1000);
