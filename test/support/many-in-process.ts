/** Creates several sandboxes and removes some of them, in a process of its own; prints the longest wait and any failure as JSON. */
import { Sandboxes } from "../../src/index.js";

const [root = "", prefix = "", worker = "", creates = "0", removes = "0"] = process.argv.slice(2);
const sandboxes = new Sandboxes({ root, prefix });
const failures: string[] = [];
for (let index = 0; index < Number(creates); index++) {
	try {
		await sandboxes.create(`n${worker}-${index}`, { image: "debian:bookworm-slim", network: "none" });
		if (index < Number(removes)) await sandboxes.remove(`n${worker}-${index}`);
	} catch (error) {
		failures.push(String(error));
	}
}
process.stdout.write(JSON.stringify({ failures }));
