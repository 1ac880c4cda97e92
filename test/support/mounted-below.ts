/** A sandbox of an ordinary user with files that only root may delete, made or removed in a process of its own; prints what came of it. */
import { isSandboxError, Sandboxes } from "../../src/index.js";

const [root = "", prefix = "", step = ""] = process.argv.slice(2);
const sandboxes = new Sandboxes({ root, prefix });
let answer: Record<string, unknown>;
if (step === "make") {
	const box = await sandboxes.create("w", { image: "debian:bookworm-slim", user: "root", network: "none" });
	await box.exec("mkdir -p m d; echo x > d/f; chmod 700 d");
	answer = { dir: box.workspaceDir };
} else {
	answer = await sandboxes.remove("w").then(
		(removed) => ({ code: String(removed) }),
		(error: unknown) => ({ code: isSandboxError(error) ? error.code : String(error) }),
	);
}
process.stdout.write(JSON.stringify(answer));
