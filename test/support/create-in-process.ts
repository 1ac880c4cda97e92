/** Creates one sandbox (given as JSON) in a process of its own and prints what came of it. */
import { MiB, Sandboxes } from "../../src/index.js";

const [root = "", prefix = "", name = "", times = "1", mebibytes = "256", image = "debian:bookworm-slim"] =
	process.argv.slice(2);
const sandboxes = new Sandboxes({ root, prefix });
const results = [];
for (let index = 0; index < Number(times); index++) {
	const box = await sandboxes.create(name.replace("%", String(index)), { image, memory: MiB(Number(mebibytes)) });
	results.push({ name: box.name, id: box.id, outcome: box.outcome, uid: process.getuid?.() });
}
process.stdout.write(JSON.stringify(results));
