// The main job, told as it goes: what a user of the library would write.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeReason, GiB, MiB, Sandboxes } from "../dist/index.js";

const home = mkdtempSync(join(tmpdir(), "sandboxes-main-job-"));
const sandboxes = new Sandboxes({ root: join(home, "root"), prefix: "main-job" });
const onProgress = ({ stage, message }) => console.log(`  [${stage}] ${message}`);

function tell(title, box) {
	const why = box.reasons.map(describeReason).join("; ");
	console.log(`${title}\n  ${box.name} ${box.outcome} ${box.id.slice(0, 12)}${why ? ` because ${why}` : ""}`);
}

try {
	const first = await sandboxes.create("workspace-42", { memory: MiB(512), onProgress });
	tell("create", first);
	const result = await first.exec("node -e 'console.log(1+1)'");
	console.log(
		`exec: node -e 'console.log(1+1)'\n  stdout ${JSON.stringify(result.stdout)} exitCode ${result.exitCode}`,
	);
	await first.exec("echo kept > marker");

	tell("create again, asking for less: it is reused", await sandboxes.create("workspace-42", { memory: MiB(256) }));
	const bigger = await sandboxes.create("workspace-42", { memory: GiB(1), onProgress });
	tell("create again, asking for more: it is rebuilt over the same workspace", bigger);
	console.log(`  marker: ${(await bigger.exec("cat marker")).stdout.trim()}`);
	await bigger.stop();
	tell("stop, then create: it is started again", await sandboxes.create("workspace-42", { memory: GiB(1) }));

	console.log("list");
	for (const info of await sandboxes.list())
		console.log(`  ${info.name} ${info.state} ${info.image} ${info.memoryBytes} bytes`);
	console.log(`remove\n  ${await sandboxes.remove("workspace-42")}`);
	console.log(`list\n  ${(await sandboxes.list()).length} sandboxes`);
} finally {
	await sandboxes.removeAll();
	rmSync(home, { recursive: true, force: true });
}
