/** One sandbox's life as the calling user sees it, in a process of its own; prints what was seen as JSON. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandboxes } from "../../src/index.js";

const [root = "", prefix = "", image = "debian:bookworm-slim"] = process.argv.slice(2);
const sandboxes = new Sandboxes({ root, prefix });
const box = await sandboxes.create("own", { image });
const out = async (command: string): Promise<string> => {
	const result = await box.exec(command);
	return result.exitCode === 0 ? result.stdout.trim() : `exit ${result.exitCode}: ${result.stderr}`;
};
const seen: Record<string, unknown> = { uid: process.getuid?.() };
seen["touched"] = await out("touch t && stat -c %u:%g t");
seen["who"] = await out("whoami; id -u; echo $HOME; touch $HOME/.probe && echo ok");
seen["hostSees"] = statSync(join(box.workspaceDir, "t")).uid;
writeFileSync(join(box.workspaceDir, "t"), "from the host");
seen["read"] = await out("cat t && echo more >> t && cat t");
seen["back"] = readFileSync(join(box.workspaceDir, "t"), "utf8");
seen["readOnlyTree"] = await out(
	"mkdir -p m/x/y && echo 1 > m/x/y/f && chmod -R a-w m && mkdir shut && chmod 000 shut && echo ok",
);
seen["rootFiles"] = (
	await box.exec("mkdir -p /workspace/r/d; touch /workspace/r/d/f; echo $?", { user: "root" })
).stdout.trim();
await box.stop();
const again = await sandboxes.create("own", { image });
seen["homeKept"] = (await again.exec("ls -A ~")).stdout.trim();
const rebuilt = await sandboxes.create("own", { image, pids: 700 });
seen["homeKeptByRebuild"] = (await rebuilt.exec("ls -A ~")).stdout.trim();
seen["removed"] = await sandboxes.remove("own");
process.stdout.write(JSON.stringify(seen));
